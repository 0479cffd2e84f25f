"""Cost estimates of configurations: what a run will send and cost."""

from dataclasses import replace
from typing import Any

from turnout.accounting.prices import Price
from turnout.codecs import Exchange
from turnout.core.algorithm import Algorithm
from turnout.core.robust_means import RobustMean
from turnout.core.seeds import Seeds
from turnout.devices import Devices
from turnout.engines.coded_algorithm import coded
from turnout.engines.cost_estimate.estimate import CostEstimate, estimate
from turnout.engines.faults import Faults
from turnout.engines.inputs import Aggregation
from turnout.experiment.experiment import Experiment
from turnout.experiment.registry import TABLES, kind_of
from turnout.hubs import Hubs
from turnout.problems.base import Precision, Problem
from turnout.report.plan import NamedPlan
from turnout.runs.hub_layout import layout_of, refuse_no_hubs, with_hubs
from turnout.runs.session import Session
from turnout.runs.setup import bind, fleet_of, prepare, scope
from turnout.samplers.base import warnings_of


def describe(experiment: Experiment, problem: Problem) -> NamedPlan:
    """Estimate what `experiment` will send on its `problem`, and list the prices to report.

    Args:
        experiment: The configuration.
        problem: The problem.
    """
    run = experiment.run
    seeds, rounds, precision = run.purpose_seeds(), run.rounds, run.precision
    options = {name: getattr(experiment, name) for name in ("exchange", "faults", "devices", "hubs")}
    options |= {"precision": precision, "aggregation": run.aggregation}
    costs = plan_for(experiment.algorithm, problem, seeds=seeds, rounds=rounds, **options)
    return NamedPlan(experiment.name, costs, every_price(experiment))


def warnings(experiment: Experiment, problem: Problem) -> list[str]:
    """Return what a user should know of the samplers before a run of `experiment`.

    Args:
        experiment: The configuration.
        problem: The problem.
    """
    problem = with_hubs(problem, experiment.hubs)
    with scope(experiment.run.precision):
        return warnings_of(bind(experiment.algorithm, problem, experiment.run.rounds), problem.population)


def plan_for(
    algorithm: Algorithm,
    problem: Problem,
    *,
    seeds: Seeds,
    rounds: int,
    faults: Faults | None = None,
    devices: Devices | None = None,
    hubs: Hubs | None = None,
    precision: Precision | None = None,
    aggregation: Aggregation | RobustMean = "plain",
    exchange: Exchange | None = None,
) -> CostEstimate:
    """Estimate what `rounds` rounds of `algorithm` on `problem` will send.

    Args:
        algorithm: The algorithm.
        problem: The problem.
        seeds: Seed of each purpose.
        rounds: Number of rounds.
        faults: How replies are lost; None means not at all.
        devices: Devices of the clients; None: there is no clock.
        hubs: Hubs between the server and the clients; None: there are none.
        precision: Precision of the run; None for double.
        aggregation: What the server receives of the replies; it matters if they are encrypted.
        exchange: Codecs of messages and replies.
    """
    refuse_no_hubs(algorithm, hubs)
    problem = with_hubs(problem, hubs)
    with scope(precision or problem.precision):
        job = prepare(problem, seeds, faults, None)
        how = "robust" if isinstance(aggregation, RobustMean) else "aggregation"
        job = replace(job, **{how: aggregation})
        if devices is not None:
            job = replace(job, fleet=fleet_of(devices, faults, problem))
        made = coded(job, bind(algorithm, problem, rounds), exchange)
        if hubs is not None:
            job = replace(job, hubs=layout_of(hubs, job, made))
        return estimate(job, made, rounds)


def plan_of(session: Session) -> CostEstimate:
    """Estimate what the run of `session` sends."""
    engine: Any = session.engine
    with scope(session.precision):
        return estimate(engine.job, engine.algorithm, session.rounds)


def every_price(experiment: Experiment) -> tuple[Price, ...]:
    """Return the prices of `experiment`, and the default price of every other kind that has one, and applies."""
    without = ("linear",) if experiment.devices is not None else ("linear", "clock")
    configured = {*without, *map(kind_of, experiment.prices)}
    return (*experiment.prices, *(price() for kind, price in TABLES["price"].items() if kind not in configured))
