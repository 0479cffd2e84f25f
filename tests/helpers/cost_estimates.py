"""What the tests of `turnout describe` foretell, and how a ledger checks it: a small problem, settings of algorithms."""

import math
from functools import cache

import jax
import numpy as np
from jax import lax

import turnout as t
from turnout.accounting.counters import to_ledger
from turnout.accounting.ledger import Ledger
from turnout.core.compiling import QUICK_TO_COMPILE
from turnout.core.seeds import Seeds
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.cost_estimate.estimate import PLAYED, SEEDS, CostEstimate, Count
from turnout.engines.state import begin, play_round
from turnout.experiment.describe import plan_for
from turnout.runs.setup import bind, prepare

ROUNDS = 120
PRICES = (t.Exchanges(), t.Hierarchical(), t.Selection(5.0, 2.0), t.Bytes(), t.Seconds(query=0.1))
PAIR, LOCAL = t.Nice(2), t.client_solvers.Gradient(lr=0.02, steps=2, tolerance=0.0)


@cache
def quadratic() -> t.Problem:
    """Five clients, two unknowns."""
    return t.Quadratic.random(5, 2, seed=1)


def icgm(estimator, **options) -> t.Algorithm:
    return t.Icgm(PAIR, estimator, lam=20.0, probability=0.4, **options)


def sppm(solver, **options) -> t.Algorithm:
    return t.Sppm(PAIR, solver, **{"gamma": 0.1, "inner": 3, **options})


def foretell(algorithm, rounds=ROUNDS, **options) -> CostEstimate:
    return plan_for(algorithm, quadratic(), seeds=Seeds.of(50), rounds=rounds, **options)


def near(counted: float, count: Count, rounds: int = ROUNDS) -> bool:
    """Whether a count of one run may be what was foretold: exactly where chance has no part in it, else within 5 deviations."""
    chance = 5 * count.error * math.sqrt(1 + max(SEEDS, PLAYED // rounds))
    return count.least - chance <= counted <= (math.inf if count.most is None else count.most) + chance


def ledger_of(algorithm, sites, faults=None) -> tuple[Ledger, set]:
    """What the compiled engine counts in a run at `sites`, from a program that is quick to compile; and the sites it met."""
    job = prepare(quadratic(), Seeds.of(3), faults, None)
    algorithm, asks = bind(algorithm, quadratic(), ROUNDS), []

    def ask(*arguments):
        asks.append(CompiledAsk(*arguments))
        return asks[-1]

    def run(job):
        progress = begin(ask, job, algorithm, sites)
        return lax.fori_loop(0, ROUNDS, lambda _, old: play_round(ask, job, algorithm, sites, old), progress)

    progress = jax.jit(run).lower(job).compile(compiler_options=QUICK_TO_COMPILE)(job)
    assert np.all(np.isfinite(algorithm.output(progress.server)))
    return to_ledger(sites, np.asarray(progress.counts)), {site for ask in asks for site in ask.calls.reached.values()}


def check(algorithm, **options) -> None:
    """Check what is foretold of every call of `algorithm` against a run with other seeds."""
    plan = foretell(algorithm, **options)
    ledger, met = ledger_of(algorithm, tuple(call.site for call in plan.calls), **options)
    assert met == set(ledger.sites)
    rows = {row["path"]: row for row in ledger.rows()}
    for call in plan.calls:
        for name, count in call.counts.items():
            assert near(rows[call.site.path][name], count), (call.site.path, name, rows[call.site.path][name], count)
            assert count.most is not None or name.startswith("queries"), (call.site.path, name)
    for price in PRICES:
        assert near(price.cost(ledger.totals()), plan.cost(price)), price.label
