"""Runs with two malicious members of ten: `python -m benchmarks.drill.malice [--runs N] [--seed S]`.

Each run has to end with the model of the honest eight, which NumPy computes by itself, or with a sentence that names a member.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.drill.cases import apart
from turnout.core.errors import UserError
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import handshake
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.server_connection import flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.federation.handshake import handshake_of
from turnout.federation.local import Federation

HONEST, CLIENTS = 8, 10
ROUNDS, STEPS, RATE, MU = 8, 3, 0.1, 0.1
NORM, SAME = 1e6, 1e-10
"""Norm above which replies are refused, and how far apart two models may be that have to be equal."""

DEADLINE = 4.0
"""Seconds that clients have for an exchange: some of them never answer, but the honest have to on this machine."""

MISDEEDS = (
    "nan", "infinite", "huge", "shape", "type", "structure", "counts", "length", "bytes", "empty", "nothing", "garbled", "error",
    "repeated", "stalled", "late", "missing",
)  # fmt: skip

TOML = f"""
[problem]
kind = "logistic"
data = "breast_cancer"
normalize = "columns"
mu = {MU}
[split]
kind = "iid"
clients = {CLIENTS}
[sampler]
kind = "full"
[run]
rounds = {ROUNDS}
metrics = ["value"]
[faults]
missing = "skip"
norm = {NORM}
[algorithm]
kind = "fedavg"
lr = {RATE}
steps = {STEPS}
"""


@dataclass
class Played:
    """What became of one run: the misdeeds, the replies that were not used by reason, and what the model or the end was."""

    misdeeds: list[tuple[str, ...]]
    reasons: Counter = field(default_factory=Counter)
    difference: float = float("inf")
    sentence: str = ""

    @property
    def good(self) -> bool:
        """Whether the run ended as it has to."""
        return self.difference <= SAME or any(f"client {member}" in self.sentence for member in range(HONEST, CLIENTS))


def honest_model(problem) -> np.ndarray:
    """Return the model of FedAvg with the honest clients alone, of equal weight."""
    features, labels = (np.asarray(part) for part in problem.rows)
    ends = np.cumsum([0, *problem.sizes])
    x = np.zeros(features.shape[1])
    for _ in range(ROUNDS):
        replies = []
        for first, end in zip(ends[:HONEST], ends[1:], strict=False):
            a, y, local = features[first:end], labels[first:end], x.copy()
            for _ in range(STEPS):
                local -= RATE * (MU * local - a.T @ (y / (1 + np.exp(y * (a @ local)))) / len(y))
            replies.append(local)
        x = np.mean(replies, axis=0)
    return x


def play(federation: Federation, misdeeds: list[tuple[str, ...]], deadline: float) -> Played:
    """Play one run in which the last members do their `misdeeds`, one for each request."""
    played, experiment = Played(misdeeds), read(federation.file)
    built, server = build(experiment, None), federation.server
    rogues = []
    for member, plan in enumerate(misdeeds, HONEST):
        states, known = federation.folder / f"states-{member}", federation.folder / "known.json"
        words = (federation.file, member, server.address, server.authority, federation.key(member), states, known)
        rogues.append(federation.run(f"rogue-{member}", "tests.helpers.rogue", *words, ",".join(plan)))
    try:
        with flower_run(server) as grid:
            mailbox = Mailbox(grid, deadline)
            nodes = handshake(mailbox, handshake_of(experiment, built), CLIENTS, timeout=120.0)
            session = session_of(experiment, built, engine=partial(Flower, mailbox, nodes, False)).run()
            played.reasons += mailbox.counts
            played.difference = apart(session.trace.x, honest_model(built.problem))
    except UserError as error:
        played.sentence = str(error)
    federation.stop(rogues)
    return played


def drill(folder: Path, runs: int, generator: np.random.Generator, deadline: float = DEADLINE) -> Iterator[Played]:
    """Play runs with random misdeeds, each of which comes before any comes again; yield what became of each."""
    federation = Federation(folder / "federation", folder / "file.toml", CLIENTS, None)
    federation.file.write_text(TOML)
    count = runs * (CLIENTS - HONEST) * ROUNDS
    order = np.concatenate([generator.permutation(MISDEEDS) for _ in range(-(-count // len(MISDEEDS)))])[:count]
    try:
        federation.start_registered_superlink()
        federation.start_nodes(range(HONEST))
        # The first misdeeds are those of the first requests of all runs: a member that is left out has no later ones.
        for plans in order.reshape(ROUNDS, runs, CLIENTS - HONEST).transpose(1, 2, 0):
            yield play(federation, [tuple(map(str, plan)) for plan in plans], deadline)
    finally:
        federation.stop()


def main() -> int:
    """Play the runs; the exit code is 1 where one did not end as it has to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drill.malice", description="Runs with two malicious members.")
    parser.add_argument("--runs", type=int, default=20, help="runs to play (20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the misdeeds (0)")
    options = parser.parse_args()
    bad = 0
    with TemporaryDirectory(prefix="turnout-") as temporary:
        for played in drill(Path(temporary), options.runs, np.random.default_rng(options.seed)):
            end = played.sentence or f"largest difference from the model of the honest {played.difference:.1e}"
            print(f"{'; '.join(', '.join(plan) for plan in played.misdeeds)}: {end}", flush=True)
            bad += not played.good
    print(
        f"{options.runs - bad} of {options.runs} runs ended with the model of the honest, or with a sentence that names a member"
    )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
