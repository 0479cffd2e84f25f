"""turnout and its peers in turn on one machine: rounds a second, seconds to the first round, and whether answers agree."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

import turnout as t
from benchmarks.data import equal_clients
from benchmarks.machine import facts, versions
from benchmarks.peers.answers import SEEDS, apart, value
from benchmarks.peers.environments import OURS, PEERS, Missing, Peer, python_of
from benchmarks.peers.program import Failed, Program
from benchmarks.peers.serve import Workload
from benchmarks.peers.table import markdown
from benchmarks.rounds import LR, STEPS, WORKLOADS, draw_all, per_client
from benchmarks.timing import SEED, Line, alternate, ratio

FOLDER = Path("bench")
CHECKED = 5
"""Rounds of the first comparison of answers, and the least of a timing."""

SECONDS, REPEATS = 1.0, 5
"""About how long a timing of a peer takes, if that is more than the least rounds, and how many there are."""


@dataclass(frozen=True)
class Outcome:
    """What one peer did on one workload; with a `problem`, a sentence, there is nothing else."""

    workload: str
    title: str
    version: str = ""
    per_second: float = 0.0
    ratio: float = 0.0
    first: float = 0.0
    apart: float = 0.0
    cohorts: str = "the same"
    rounds: int = 0
    timings: dict[str, list[float]] = field(default_factory=dict)
    problem: str = ""


def measure() -> list[Line]:
    """Compare on all workloads, write what was found, and return a line for each peer and workload."""
    outcomes = [outcome for name in WORKLOADS for outcome in compared(name, **WORKLOADS[name])]
    FOLDER.mkdir(exist_ok=True)
    found = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": facts(), "versions": versions(),
        "pins": {peer.title: peer.pins.split() for peer in PEERS if peer.packages},
        "settings": {"workloads": WORKLOADS, "steps": STEPS, "lr": LR, "precision": "single", "seeds": [SEED]},
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }  # fmt: skip
    (FOLDER / "peers.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (FOLDER / "peers.md").write_text(markdown(found["outcomes"]), encoding="utf-8")
    return [line for outcome in outcomes for line in lines_of(outcome)]


def lines_of(outcome: Outcome) -> Iterator[Line]:
    """Return the line of the table; turnout itself has none."""
    if outcome.title == OURS.title:
        return
    what = f"{outcome.workload}: rounds a second over those of {outcome.title} {outcome.version}".rstrip()
    if outcome.problem:
        yield Line("peers", what, None, note=outcome.problem)
        return
    note = f"{outcome.per_second * outcome.ratio:,.0f} against {outcome.per_second:,.3g} rounds a second"
    yield Line("peers", what, outcome.ratio, note=f"{note}; its first round after {outcome.first:.1f} s",
               settings={"workload": outcome.workload, "rounds": outcome.rounds}, timings=outcome.timings)  # fmt: skip


def compared(name: str, clients: int, rows: int, width: int, cohort: int, rounds: int) -> list[Outcome]:
    """Return what turnout and each peer did on one workload."""
    problem = equal_clients(clients, rows, width)
    features, labels = (np.asarray(leaf) for leaf in per_client(problem))
    cohorts = np.asarray(draw_all(t.Nice(cohort), problem.population, rounds))
    w = Workload(features, labels, cohorts, np.zeros(width, np.float32), LR, STEPS, rows, problem.mu)
    with TemporaryDirectory() as place, emptied_cache(Path(place) / "cache"):
        file = Path(place) / "workload.npz"
        w.write(file)
        # The first process compiles; the second, which is measured against, finds its programs.
        with Program(OURS.name, file, Path(place) / "turnout-first.log") as program:
            cold = program.first()
        with Program(OURS.name, file, Path(place) / "turnout.log") as ours:
            first = ours.first()
            against = Against(w, ours, file)
            outcomes = [against.outcome(name, peer) for peer in PEERS]
    own = Outcome(name, OURS.title, t.__version__, median(rounds / s for s in against.own), 1.0, cold, 0.0, rounds=rounds,
                  timings={"turnout": against.own, "first again": [first]})  # fmt: skip
    return [own, *outcomes]


@contextmanager
def emptied_cache(folder: Path):
    """Let turnout find no compiled programs but those of this benchmark."""
    before = os.environ.get("TURNOUT_CACHE")
    os.environ["TURNOUT_CACHE"] = str(folder)
    try:
        yield
    finally:
        del os.environ["TURNOUT_CACHE"]
        if before is not None:
            os.environ["TURNOUT_CACHE"] = before


class Against:
    """turnout's process, against which peers are measured one after another.

    Args:
        w: The workload.
        ours: The process.
        file: The file with the workload.
    """

    def __init__(self, w: Workload, ours: Program, file: Path):
        self.w, self.ours, self.file, self.rounds, self.own = w, ours, file, len(w.cohorts), []
        self.start = value(w, w.start)
        self.known: dict[tuple[int, int], float] = {}

    def outcome(self, name: str, peer: Peer) -> Outcome:
        """Measure one peer; what goes wrong is told in a sentence."""
        try:
            with Program(peer.name, self.file, self.file.with_name(f"{peer.name}.log"), python_of(peer)) as program:
                return self.measured(name, peer, program)
        except (Missing, Failed) as error:
            return Outcome(name, peer.title, problem=str(error))

    def measured(self, name: str, peer: Peer, program: Program) -> Outcome:
        """Check the answer after a few rounds, then time, then check the answer of the last timing.

        Raises:
            Failed: If there is no answer, or a wrong one.
        """
        first = program.first()
        self.check(peer, program.ask(rounds=CHECKED), CHECKED)
        rounds = rounds_within(SECONDS, program.ask(rounds=CHECKED)["seconds"] / CHECKED, self.rounds)
        if rounds > CHECKED:
            program.ask(rounds=rounds)
        last: dict = {}

        def theirs() -> float:
            last.update(program.ask(rounds=rounds))
            return last["seconds"] / rounds

        taken = alternate({"peer": theirs, "turnout": self.timer()}, REPEATS, warm=False)
        distance = self.check(peer, last, rounds)
        self.own += [each * self.rounds for each in taken["turnout"]]
        return Outcome(
            name, peer.title, last["version"], 1 / median(taken["peer"]), ratio(taken, "peer", "turnout"), first, distance,
            "its own" if peer.draws else "the same", rounds, taken,
        )  # fmt: skip

    def timer(self) -> Callable[[], float]:
        """Return what gives turnout's seconds a round."""
        return lambda: self.ours.ask(rounds=self.rounds)["seconds"] / self.rounds

    def check(self, peer: Peer, answer: dict, rounds: int) -> float:
        """Return how far the answer is from turnout's, 1 being the most that is allowed.

        Raises:
            Failed: If it is farther.
        """
        references = [self.reference(rounds, seed) for seed in range(SEEDS if peer.draws else 1)]
        distance = apart(value(self.w, answer["x"]), self.start, references)
        if not distance <= 1:
            raise Failed(f"{peer.title} has another f after {rounds} rounds, {distance:.3g} times what is allowed from turnout's")
        return distance

    def reference(self, rounds: int, seed: int) -> float:
        """Return turnout's f after some rounds with a seed; seed 0 has the cohorts of the workload."""
        if (rounds, seed) not in self.known:
            self.known[rounds, seed] = value(self.w, self.ours.ask(rounds=rounds, seed=seed)["x"])
        return self.known[rounds, seed]


def rounds_within(seconds: float, each: float, most: int) -> int:
    """Return 1, 2 or 5 times a power of ten that takes about so long, at least CHECKED and at most `most`."""
    series = [step * 10**power for power in range(7) for step in (1, 2, 5)]
    return max((n for n in series if CHECKED <= n <= most and n * each <= seconds), default=CHECKED)
