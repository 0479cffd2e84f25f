"""How far the mean of adapters is from the adapter of the mean."""

from dataclasses import replace
from typing import Any

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
    """Return |sum_i lambda_i B_i A_i - B A|, where a round takes client i alone from x to A_i and B_i, and everyone to A and B.

    The norm is that of all matrices with adapters together, with their factor alpha / r, and of W where this moves. For each
    client one round of everyone is played in which that client has all the weight, so that an algorithm of means, such as
    `FedAvg`, gives A_i and B_i, of which a client of the rank r_i has the first r_i rows and columns.

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
    shares = np.asarray(problem.population.shares, float)

    def models(weights: np.ndarray) -> dict[str, Any]:
        """Return the leaves, by name, after a round of everyone with these weights."""
        weighted = replace(problem, population=replace(problem.population, weights=weights))
        trace = run(everyone, weighted, rounds=1, start=x, **options)
        if trace.diverged is not None:
            raise UserError("a client diverged, so that there is no mean with it: lower the step size")
        return {name: np.asarray(leaf, float) for name, leaf in trace.x.items()}

    mean, ends = models(shares), [models(one) for one in np.eye(problem.clients)]
    squares = 0.0
    for site in inner.sites:
        own = np.stack([site.merged(site.of_client(end, i)) for i, end in enumerate(ends)])
        squares += np.sum((np.tensordot(shares / np.sum(shares), own, 1) - site.merged(mean)) ** 2)
    return float(np.sqrt(squares))
