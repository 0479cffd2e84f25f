"""The cost of generality: a run of federated averaging against the same loop written by hand in JAX."""

from functools import partial
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np

import turnout as t
from benchmarks.data import equal_clients
from benchmarks.timing import SEED, Line, alternate, ratio, seconds
from turnout.seeds import Seeds
from turnout.session import Session

LR, STEPS = 0.1, 5
SEEDS = Seeds(SEED, SEED, SEED)
WORKLOADS = {
    "W1": {"clients": 100, "rows": 100, "width": 122, "cohort": 10, "rounds": 10_000},
    "W2": {"clients": 10_000, "rows": 20, "width": 60, "cohort": 100, "rounds": 4_000},
}


def measure() -> list[Line]:
    """Return the time of a round over that of the bare loop, and how far their results are apart, for each workload."""
    return [line for name, sizes in WORKLOADS.items() for line in workload(name, **sizes)]


def workload(name: str, clients: int, rows: int, width: int, cohort: int, rounds: int) -> list[Line]:
    """Measure one workload, both sides with the same cohorts."""
    problem = equal_clients(clients, rows, width)
    cohorts = draw_all(t.Nice(cohort), problem.population, rounds)
    features = jnp.asarray(problem.rows[0].reshape(clients, rows, width))
    labels = jnp.asarray(problem.rows[1].reshape(clients, rows))
    results = {}

    def bare() -> float:
        def play():
            results["bare"] = bare_run(features, labels, cohorts, LR, problem.mu).block_until_ready()

        return seconds(play)

    def ours() -> float:
        session = new_session(problem, cohort, rounds)
        chunks = session.play()
        next(chunks)  # The row before the first round.
        taken = seconds(lambda: list(chunks))
        results["turnout"] = session.trace.x
        return taken

    taken = alternate({"bare": bare, "turnout": ours})
    apart = float(np.max(np.abs(results["turnout"] - np.asarray(results["bare"]))))
    settings = {"clients": clients, "rows": rows, "width": width, "cohort": cohort, "rounds": rounds,
                "steps": STEPS, "lr": LR, "precision": "single", "seeds": [SEED]}  # fmt: skip
    each = {side: median(times) / rounds * 1e6 for side, times in taken.items()}
    note = f"{each['turnout']:.0f} against {each['bare']:.0f} microseconds a round"
    return [
        Line("rounds", f"{name}: a round over a bare JAX loop's", ratio(taken, "turnout", "bare"), 1.10, note=note,
             settings=settings, timings=taken),
        Line("rounds", f"{name}: largest difference of the parameters", apart, 1e-5, unit="", settings=settings,
             note="same cohorts, single precision"),
    ]  # fmt: skip


def new_session(problem, cohort: int, rounds: int) -> Session:
    """Return a session that writes one trace row before the first round and one after the last."""
    return Session(
        t.FedAvg(t.Nice(cohort), lr=LR, steps=STEPS), problem, seeds=SEEDS, model_seed=SEED, rounds=rounds,
        every=rounds, metrics=("value",), precision="single",
    )  # fmt: skip


def draw_all(sampler: t.Sampler, population: t.Population, rounds: int):
    """Return the cohorts [rounds, m] that a run of `sampler` draws."""
    draw = jax.jit(lambda number: sampler.draw(None, SEEDS.draw(number, 0), population).ids)
    return jax.lax.map(draw, jnp.arange(1, rounds + 1))


@partial(jax.jit, static_argnames="steps")
def bare_run(features, labels, cohorts, lr, mu, steps=STEPS):
    """Federated averaging as one would write it for one use: no counting, no sampling, nothing to choose."""

    def loss(x, rows, signs):
        return jnp.mean(jnp.logaddexp(0, -signs * (rows @ x))) + mu / 2 * (x @ x)

    def local(x, rows, signs):
        return jax.lax.fori_loop(0, steps, lambda _, y: y - lr * jax.grad(loss)(y, rows, signs), x)

    def one_round(x, ids):
        return jnp.mean(jax.vmap(local, (None, 0, 0))(x, features[ids], labels[ids]), axis=0), None

    return jax.lax.scan(one_round, jnp.zeros(features.shape[-1], features.dtype), cohorts)[0]
