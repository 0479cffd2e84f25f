"""What a configuration will send and cost, before it is played."""

from typing import Any

from turnout.accounting.prices import Price
from turnout.core.algorithm import Algorithm
from turnout.core.seeds import Seeds
from turnout.engines.cost_estimate.estimate import CostEstimate, estimate
from turnout.engines.faults import Faults
from turnout.experiment.config import Experiment
from turnout.experiment.registry import TABLES, kind_of
from turnout.problems.base import Precision, Problem
from turnout.report.plan import Described
from turnout.runs.session import Session
from turnout.runs.setup import bind, prepare, scope


def describe(experiment: Experiment, problem: Problem) -> Described:
    """Foretell what `experiment` will send, its problem being built, and name every price."""
    run = experiment.run
    found = foretold(
        experiment.algorithm,
        problem,
        seeds=run.purpose_seeds(),
        rounds=run.rounds,
        faults=experiment.faults,
        precision=run.precision,
    )
    return Described(experiment.name, found, every_price(experiment))


def foretold(
    algorithm: Algorithm,
    problem: Problem,
    *,
    seeds: Seeds,
    rounds: int,
    faults: Faults | None = None,
    precision: Precision | None = None,
) -> CostEstimate:
    """Foretell what `rounds` rounds of `algorithm` on `problem` will send."""
    with scope(precision or problem.precision):
        return estimate(prepare(problem, seeds, faults, None), bind(algorithm, problem, rounds), rounds)


def plan_of(session: Session) -> CostEstimate:
    """Foretell what the run of `session` sends, whether it was played or not."""
    engine: Any = session.engine
    with scope(session.precision):
        return estimate(engine.job, engine.algorithm, session.rounds)


def every_price(experiment: Experiment) -> tuple[Price, ...]:
    """Return the prices of `experiment`, then one with default numbers of each kind that it does not have."""
    own = {kind_of(price) for price in experiment.prices}
    return (*experiment.prices, *(price() for kind, price in TABLES["price"].items() if kind not in own))
