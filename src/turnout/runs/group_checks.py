"""What does not go with groups of leaves, or has little effect."""

import numpy as np

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError, caution
from turnout.engines.metrics import TEST
from turnout.problems.base import Problem
from turnout.problems.grouped import Grouped
from turnout.runs.options import RunOptions
from turnout.samplers.base import samplers_in

ENOUGH = 2
"""A client that takes part less often on average hardly uses what it has learned for itself."""


def check_groups(
    algorithm: Algorithm, problem: Problem, options: RunOptions, metrics: tuple[str, ...], *, deployed: bool
) -> None:
    """Raise `UserError` where a run cannot have the groups of its problem.

    Args:
        algorithm: The algorithm.
        problem: The problem.
        options: Options of the run.
        metrics: Names of the metrics.
        deployed: Whether clients are nodes of a federation.
    """
    tested = [name for name in metrics if name in TEST]
    personal = algorithm.personalises or (isinstance(problem, Grouped) and bool(problem.groups.personal))
    if personal and tested and deployed:
        raise UserError(f"metric {tested[0]!r} needs the models of clients, which stay at the nodes: take metrics of their rows")
    if personal and tested and options.test is not None and options.test.clients != problem.clients:
        raise UserError(
            f"clients with models of their own test these, but the test problem has {options.test.clients} clients and the "
            f"problem {problem.clients}: give each client test rows, or hold clients out"
        )
    if not isinstance(problem, Grouped):
        return
    groups = problem.groups
    if groups.averaged and options.privacy is not None:
        raise UserError(
            f"[privacy] protects the replies of the algorithm, and statistics such as {groups.averaged[0]} would tell of rows: "
            "make them personal, freeze them, or normalise without statistics"
        )


def tell_groups(algorithm: Algorithm, problem: Problem, rounds: int) -> None:
    """Give a `Caution` where clients take part too rarely for leaves of their own.

    Args:
        algorithm: The algorithm, bound to the problem.
        problem: The problem.
        rounds: Number of rounds.
    """
    samplers = samplers_in(algorithm)
    if not isinstance(problem, Grouped) or not problem.groups.personal or not samplers:
        return
    if problem.personal is not None and problem.personal.trained == "after":
        return
    population = problem.population
    try:
        drawn = samplers[0].expected_draws(samplers[0].start(population), population)
    except UserError:
        # The sampler has no probabilities.
        return
    times = rounds * float(np.sum(np.asarray(drawn))) / population.count
    if rounds and times < ENOUGH:
        caution(
            f"a client takes part {times:.2g} times on average, so that its personal leaves are hardly trained and used: share "
            "them, or draw clients more often"
        )
