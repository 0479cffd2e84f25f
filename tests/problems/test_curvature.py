"""The largest curvature at the start, against the eigenvalues of the whole Hessian."""

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import turnout as t
from turnout.data import IidSplit, load
from turnout.problems.curvature import TOLERANCE, largest_curvature
from turnout.problems.storage.layout import objective
from turnout.problems.storage.store import store


def network() -> t.Problem:
    data = load("iris")
    return t.Network.of(data, IidSplit(clients=5).split(data), hidden=4, mu=0.01)


@pytest.mark.tiers(quick=[], longer=["quadratic"])
@pytest.mark.parametrize("make", [network, lambda: t.Quadratic.random(6, 7, seed=2)], ids=["network", "quadratic"])
def test_it_is_the_largest_eigenvalue_of_the_hessian(make):
    problem = make()
    start, unravel = ravel_pytree(problem.start(jax.random.key(0)))
    hessian = jax.hessian(lambda x: objective(store(problem), "value", unravel(x)))(start)
    largest = np.linalg.eigvalsh(np.asarray(hessian)).max()
    assert abs(largest_curvature(problem) / largest - 1) <= TOLERANCE
