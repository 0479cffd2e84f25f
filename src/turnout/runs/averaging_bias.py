"""How far the mean of adapters is from the adapter of the mean."""

from dataclasses import replace

import numpy as np
from jaxtyping import PyTree

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.problems.adapters.adapted import Adapted
from turnout.problems.base import Problem
from turnout.problems.grouped import Grouped
from turnout.runs.api import run
from turnout.samplers import Full


def averaging_bias(algorithm: Algorithm, problem: Problem, x: PyTree = None, **settings) -> float:
    """Return |sum_i lambda_i B_i A_i - B A|, where client i goes from x to A_i and B_i in one round, and A and B are their means.

    The norm is that of all matrices with adapters together, with their factor alpha / r. For each client one round of everyone is
    played in which that client has all the weight, so that an algorithm of means, such as `FedAvg`, gives A_i and B_i.

    Args:
        algorithm: An algorithm of means with a sampler, in the place of which everyone takes part.
        problem: A problem with adapters.
        x: Parameters, such as `trace.x`; None for the first ones.
        **settings: Fields of `RunOptions`, such as `seed`.

    Raises:
        UserError: The problem has no adapters, or a client diverged.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=4).split(data), model="perceptron", hidden=16)
        >>> adapted = (t.Grouped.of(problem, t.Adapter("*", 2, trained=trained)) for trained in ("both", "B"))
        >>> both, one = (t.averaging_bias(t.FedAvg(t.Full(), lr=0.02, steps=20), problem) for problem in adapted)
        >>> both > 1e-3, one < 1e-6
        (True, True)
    """
    inner = problem.inner if isinstance(problem, Grouped) else problem
    if not isinstance(inner, Adapted):
        raise UserError("averaging_bias compares adapters, and the problem has none: give Grouped.of an Adapter")
    everyone = replace(algorithm, sampler=Full())
    options = {"engine": "nodes" if problem.remote else "compiled", "metrics": ("value",), **settings}
    shares, ends = np.asarray(problem.population.shares), []
    for i in range(problem.clients):
        alone = replace(problem, population=replace(problem.population, weights=np.eye(problem.clients)[i]))
        trace = run(everyone, alone, rounds=1, start=x, **options)
        if trace.diverged is not None:
            raise UserError(f"client {i} diverged, so that there is no mean with it: lower the step size")
        ends.append(trace.x)
    squares = 0.0
    for site in inner.sites:
        a, b = (np.stack([np.asarray(end[name], float) for end in ends]) for name in (site.a, site.b))
        products, mean = np.tensordot(shares, b @ a, 1), np.tensordot(shares, b, 1) @ np.tensordot(shares, a, 1)
        squares += np.sum((site.factor * (products - mean)) ** 2)
    return float(np.sqrt(squares))
