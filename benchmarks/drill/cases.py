"""What the drill plays, and what has to hold at the end."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.algorithms import FedDcd, Icgm, Scaffold
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.hub_engine import HubFlower
from turnout.engines.flower.state_store import DiskStates
from turnout.engines.inputs import Job
from turnout.engines.messaging import MessageEngine
from turnout.engines.request import FIRST
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.federation.handshake import handshake_of
from turnout.io.serialization import decode
from turnout.runs.session import Session

ALGORITHMS = {
    "scaffold": 'kind = "scaffold"\nlr = 0.05\nsteps = 3',
    "feddcd": 'kind = "feddcd"\nsolver = { kind = "gradient", steps = 20, tolerance = 0.0 }',
    "rg-saga": 'kind = "icgm"\nestimator = "rg-saga"\nlam = 1.0\nprobability = 0.3',
}
IN_HUBS = {
    "in-hubs": 'kind = "in-hubs"\nrounds = 4\nup = { kind = "top-k", count = 5 }\nfeedback = "ef21"\n'
    f"[algorithm.algorithm]\n{ALGORITHMS['scaffold']}",
    "served": 'kind = "sppm"\ngamma = 1.0\ninner = 4\nsolver = "bfgs"',
}
"""What hubs play by themselves: clients and hubs have states, or the server's is with the hub of the cohort."""

PAIRS = 'kind = "nice"\nsize = 2'
SAMPLERS = {"served": 'kind = "block"'}
"""Those of algorithms that have another than two clients at random."""
POLICIES = ("repeat", "skip")


@dataclass(frozen=True)
class Case:
    """An algorithm on logistic regression with clients of unequal weights, what is done about missing replies, and hubs."""

    algorithm: str
    missing: str
    clients: int
    rounds: int
    hubs: int = 0

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.missing}"

    def to_toml(self) -> str:
        """Return the configuration."""
        return f"""
[problem]
kind = "logistic"
data = "breast_cancer"
normalize = "columns"
mu = 0.1
weights = "size"
[split]
kind = "dirichlet"
clients = {self.clients}
concentration = 1.0
[sampler]
{SAMPLERS.get(self.algorithm, PAIRS)}
[run]
rounds = {self.rounds}
[faults]
missing = "{self.missing}"
[algorithm]
{(ALGORITHMS | IN_HUBS)[self.algorithm]}
""" + (f"[hubs]\ncount = {self.hubs}\n" if self.hubs else "")


class Ended(Flower):
    """The engine of a run that is over: nobody is asked any more."""

    def __init__(self, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        MessageEngine.__init__(self, job, algorithm, metrics, every)
        self.resumed = True


class EndedWithHubs(Ended, HubFlower):
    """The same with hubs."""


def differences(file: Path, end: Path, states: Callable[[int], Path]) -> dict[str, float]:
    """Return by how much (see `apart`) what has to be equal is not, by name.

    `file` is its configuration, `end` where its server left the last snapshot, and `states` where each node keeps its own.
    """
    experiment = read(file)
    built = build(experiment, None)
    session = session_of(experiment, built, engine=Ended if experiment.hubs is None else EndedWithHubs)
    session.restore(decode(end.read_bytes(), None)[0])
    found = {}
    if experiment.faults.repeats:
        expected = session_of(replace(experiment, faults=None), built).run().trace
        for name in {*expected.columns} - {"counts"}:
            found[name] = apart(session.trace.columns[name], expected.columns[name])
        found["parameters"] = apart(session.trace.x, expected.x)
    if type(experiment.algorithm) not in INVARIANTS:
        return found
    digest = handshake_of(experiment, built).digest
    clients, shares = last_states(session, lambda i: states(i) / f"{digest}-{i}"), np.asarray(built.problem.population.weights)
    return found | INVARIANTS[type(session.engine.algorithm)](session, clients, shares)


def last_states(session: Session, states: Callable[[int], Path]) -> PyTree:
    """Return the nodes' private states from their disks, in the versions that the server goes by, stacked [n, ...]."""
    first = session.engine.algorithm.client_state(session.engine.job.start)
    versions = map(tuple, np.asarray(session.progress.clients).tolist())
    held = [first if v == FIRST else DiskStates(states(i), first)[v] for i, v in enumerate(versions)]
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *held)


def scaffold(session: Session, clients, shares) -> dict[str, float]:
    """c = sum_i lambda_i c_i."""
    return {"the mean of the control variates": apart(session.progress.server.variate, shares @ clients)}


def feddcd(session: Session, clients, shares) -> dict[str, float]:
    """sum_i lambda_i y_i = 0 after the step that each client is owed."""
    algorithm = session.engine.algorithm
    rate = np.broadcast_to(algorithm.lr * algorithm.convexity, shares.shape)[:, None]
    y = clients.y - rate * (clients.w - np.asarray(session.progress.server.owed))
    return {"the sum of the duals": apart(shares @ y, 0 * shares @ y)}


def rg_saga(session: Session, clients, shares) -> dict[str, float]:
    """b = sum_i lambda_i b_i, and the delegate, client 0, has x."""
    server = session.progress.server
    return {
        "the mean of the table": apart(server.estimate.memory, shares @ clients.memory),
        "the delegate's parameters": apart(server.x, clients.point[0]),
    }


INVARIANTS = {Scaffold: scaffold, FedDcd: feddcd, Icgm: rg_saga}


def apart(a, b) -> float:
    """Return the largest |a - b| / max(1, |b|)."""
    a, b = np.asarray(a), np.asarray(b)
    return float(np.max(np.abs(a - b) / np.maximum(1, np.abs(b)), initial=0.0)) if a.shape == b.shape else float("inf")
