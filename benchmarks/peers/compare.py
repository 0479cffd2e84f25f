"""turnout and its peers in turn on one machine: rounds a second, seconds to the first round, and whether answers agree."""

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

import turnout as t
from benchmarks import femnist
from benchmarks.data import equal_clients
from benchmarks.machine import facts, versions
from benchmarks.peers.answers import NETWORK_SEEDS, SEEDS, apart, value
from benchmarks.peers.environments import OURS, PEERS, Peer, python_of
from benchmarks.peers.program import Failed, Program
from benchmarks.peers.serve import Workload
from benchmarks.peers.table import markdown, short
from benchmarks.rounds import LR, STEPS, WORKLOADS, draw_all, per_client
from benchmarks.timing import Line, alternate, ratio

FOLDER = Path("bench")
CHECKED = 5
"""Rounds of the first comparison of answers, and the least of a timing."""

SECONDS, REPEATS, SLOW_REPEATS = 1.0, 5, 3
"""About how long a timing of a peer takes, and how many there are, with fewer where the least rounds take twice as long."""

WARM_SECONDS = 5.0
"""If the first run of so many rounds takes less, another tells how fast they are."""


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
    makers = {name: partial(logistic, **sizes) for name, sizes in WORKLOADS.items()} | {"W3": network}
    outcomes: list[Outcome] = []
    FOLDER.mkdir(exist_ok=True)
    for name, make in makers.items():
        outcomes += compared(name, make())
        write(outcomes)
    return [line for outcome in outcomes for line in lines_of(outcome)]


def write(outcomes: list[Outcome]) -> None:
    """Write what was found, with all timings, and its table."""
    found = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": facts(), "versions": versions(),
        "pins": {peer.title: [*peer.packages, *peer.alone] for peer in PEERS if peer.packages},
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }  # fmt: skip
    (FOLDER / "peers.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (FOLDER / "peers.md").write_text(markdown(found["outcomes"]), encoding="utf-8")


def logistic(clients: int, rows: int, width: int, cohort: int, rounds: int) -> Workload:
    """Return logistic regression with full batches, and the cohorts that turnout draws."""
    problem = equal_clients(clients, rows, width)
    features, labels = (np.asarray(leaf) for leaf in per_client(problem))
    cohorts = np.asarray(draw_all(t.Nice(cohort), problem.population, rounds))
    return Workload(features, labels, cohorts, np.zeros(width, np.float32), LR, STEPS, rows, problem.mu)


def network() -> Workload:
    """Return the network of the topic `femnist` on its images, and the cohorts that turnout draws."""
    from benchmarks.femnist_bare import network as femnist_cnn
    from benchmarks.peers.in_torch import parameters

    images, labels = (leaf.reshape(femnist.CLIENTS, femnist.ROWS, *leaf.shape[1:]) for leaf in femnist.data(femnist.CLIENTS))
    cohorts = np.asarray(draw_all(t.Nice(femnist.COHORT), t.Population(count=femnist.CLIENTS), CHECKED))
    start = parameters(femnist_cnn(femnist.SIDE, femnist.CLASSES))
    return Workload(images, labels, cohorts, start, femnist.LR, 1, femnist.BATCH, 0.0, femnist.CLASSES)


def lines_of(outcome: Outcome) -> Iterator[Line]:
    """Return the line of the table; turnout itself has none."""
    if outcome.title == OURS.title:
        return
    what = f"{outcome.workload}: rounds a second over {outcome.title}'s"
    if outcome.problem:
        yield Line("peers", what, None, note=outcome.problem)
        return
    note = f"{short(outcome.per_second * outcome.ratio)} against {short(outcome.per_second)} rounds a second"
    yield Line("peers", what, outcome.ratio, note=f"{note}; its first round after {outcome.first:.1f} s",
               settings={"workload": outcome.workload, "rounds": outcome.rounds}, timings=outcome.timings)  # fmt: skip


def compared(name: str, w: Workload) -> list[Outcome]:
    """Return what turnout and each peer did on one workload."""
    with TemporaryDirectory() as place, emptied_cache(Path(place) / "cache"):
        file = Path(place) / "workload.npz"
        w.write(file)
        # The first process compiles; the second, which is measured against, finds its programs.
        with Program(OURS.name, file, Path(place) / "turnout-first.log") as program:
            cold = program.first()
        with Program(OURS.name, file, Path(place) / "turnout.log") as ours:
            first = ours.first()
            against = Against(w, ours, file)
            outcomes = [against.outcome(name, peer) for peer in PEERS if name in peer.workloads]
    taken = [each for outcome in outcomes for each in outcome.timings.get("turnout", ())]
    own = Outcome(name, OURS.title, t.__version__, 1 / median(taken or [math.nan]), 1.0, cold, rounds=against.rounds,
                  timings={"turnout": taken, "first again": [first]})  # fmt: skip
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
        self.w, self.ours, self.file, self.rounds = w, ours, file, len(w.cohorts)
        self.start = value(w, w.start)
        self.known: dict[tuple[int, int], float] = {}

    def outcome(self, name: str, peer: Peer) -> Outcome:
        """Measure one peer; what goes wrong is told in a sentence."""
        try:
            with Program(peer.name, self.file, self.file.with_name(f"{peer.name}.log"), python_of(peer)) as program:
                return self.measured(name, peer, program)
        except (t.UserError, Failed) as error:
            return Outcome(name, peer.title, problem=str(error))

    def measured(self, name: str, peer: Peer, program: Program) -> Outcome:
        """Check the answer after a few rounds, then time, then check the answer of the last timing.

        Raises:
            Failed: If there is no answer, or a wrong one.
        """
        first = program.first()
        warm = program.ask(rounds=CHECKED)
        self.check(peer, warm, CHECKED)
        # Some programs were compiled in that run.
        if warm["seconds"] < WARM_SECONDS:
            warm = program.ask(rounds=CHECKED)
        rounds = rounds_within(SECONDS, warm["seconds"] / CHECKED, self.rounds)
        if rounds > CHECKED:
            program.ask(rounds=rounds)
        last: dict = {}

        def theirs() -> float:
            last.update(program.ask(rounds=rounds))
            return last["seconds"] / rounds

        repeats = SLOW_REPEATS if warm["seconds"] / CHECKED * rounds > 2 * SECONDS else REPEATS
        taken = alternate({"peer": theirs, "turnout": self.timer()}, repeats, warm=False)
        distance = self.check(peer, last, rounds)
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
        # Batches of networks are shuffled, by each in its own way.
        seeds = NETWORK_SEEDS if self.w.classes else SEEDS if peer.draws else 1
        references = [self.reference(rounds, seed) for seed in range(seeds)]
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
