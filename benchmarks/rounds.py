"""The cost of generality: a run of federated averaging against the same loop written by hand in JAX."""

from statistics import median

import jax
import jax.numpy as jnp
import numpy as np

import turnout as t
from benchmarks.data import equal_clients
from benchmarks.peers.jax_scan import run
from benchmarks.timing import SEED, Line, alternate, ratio, seconds
from turnout.core.seeds import Seeds
from turnout.runs.session import Session

LR, STEPS = 0.1, 5
REPEATS = 11
"""More than elsewhere: the ratio is near its bar, and what else the machine does moves it by some percent."""

CHECKED = 500
"""Rounds after which the parameters of both sides are compared."""

SEEDS = Seeds.of(SEED)
WORKLOADS = {
    "W1": {"clients": 100, "rows": 100, "width": 122, "cohort": 10, "rounds": 5_000},
    "W2": {"clients": 10_000, "rows": 20, "width": 60, "cohort": 100, "rounds": 2_000},
}


def measure() -> list[Line]:
    """Return the time of a round over that of the bare loop, and how far their results are apart, for each workload."""
    return [line for name, sizes in WORKLOADS.items() for line in workload(name, **sizes)]


def workload(name: str, clients: int, rows: int, width: int, cohort: int, rounds: int) -> list[Line]:
    """Measure one workload, both sides with the same cohorts."""
    problem = equal_clients(clients, rows, width)
    cohorts = draw_all(t.Nice(cohort), problem.population, rounds)
    features, labels = per_client(problem)

    def bare() -> float:
        return seconds(lambda: bare_run(features, labels, cohorts, problem.mu).block_until_ready())

    def ours() -> float:
        chunks = new_session(problem, cohort, rounds).play()
        next(chunks)  # The row before the first round.
        return seconds(lambda: list(chunks))

    taken = alternate({"bare": bare, "turnout": ours}, REPEATS)
    settings = {"clients": clients, "rows": rows, "width": width, "cohort": cohort, "rounds": rounds,
                "steps": STEPS, "lr": LR, "precision": "single", "seeds": [SEED]}  # fmt: skip
    each = {side: median(times) / rounds * 1e6 for side, times in taken.items()}
    note = f"{each['turnout']:.0f} against {each['bare']:.0f} microseconds a round"
    checked = {**settings, "rounds": CHECKED, "precision": "double"}
    return [
        Line("rounds", f"{name}: a round over a bare JAX loop's", ratio(taken, "turnout", "bare"), 1.10, note=note,
             settings=settings, timings=taken),
        Line("rounds", f"{name}: largest difference of the parameters", apart(problem, cohort), 1e-12, unit="",
             note=f"double precision, {CHECKED} rounds with the same cohorts", settings=checked),
    ]  # fmt: skip


def apart(problem, cohort: int) -> float:
    """Return the largest difference between the parameters of both sides after a few rounds in double precision."""
    with jax.enable_x64(True):
        cohorts = draw_all(t.Nice(cohort), problem.population, CHECKED)
        features, labels = (jnp.asarray(a, "float64") for a in per_client(problem))
        bare = np.asarray(bare_run(features, labels, cohorts, problem.mu))
    session = new_session(problem, cohort, CHECKED, "double")
    list(session.play())
    return float(np.max(np.abs(session.trace.x - bare)))


def per_client(problem):
    """Return features [n, s, d] and labels [n, s] of clients of equal size s."""
    return [jnp.asarray(a.reshape(problem.clients, -1, *a.shape[1:])) for a in problem.rows]


def new_session(problem, cohort: int, rounds: int, precision="single") -> Session:
    """Return a session that writes one trace row before the first round and one after the last."""
    return Session(
        t.FedAvg(t.Nice(cohort), lr=LR, steps=STEPS), problem, seeds=SEEDS, rounds=rounds,
        every=rounds, metrics=("value",), precision=precision,
    )  # fmt: skip


def draw_all(sampler: t.Sampler, population: t.Population, rounds: int):
    """Return the cohorts [rounds, m] that a run of `sampler` draws."""
    draw = jax.jit(lambda number: sampler.draw(None, SEEDS.draw(number, 0), population).ids)
    return jax.lax.map(draw, jnp.arange(1, rounds + 1))


def bare_run(features, labels, cohorts, mu):
    """Return the parameters after one round for each cohort, by the program written by hand."""
    return run(jnp.zeros(features.shape[-1], features.dtype), features, labels, cohorts, LR, mu, STEPS)
