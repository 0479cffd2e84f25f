"""What every client solver owes: it lowers phi = f_i + (weight / 2) |. - centre|^2 on its client, in finite steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import CLIENT_SOLVERS, small
from turnout.problems.storage.jax_client import JaxClient
from turnout.problems.storage.store import store
from turnout.runs.setup import bind


@pytest.mark.tiers(longer=["adam", "per-class", "sgd", "stochastic", "svrg"])
@pytest.mark.parametrize("name", CLIENT_SOLVERS)
def test_every_client_ends_lower_than_it_starts(name):
    problem, centre = small(), jnp.ones(3)
    solver, storage = bind(CLIENT_SOLVERS[name], problem), store(problem)

    @jax.jit
    def solve(i):
        client = JaxClient(i, jax.random.key(0), None, storage.oracle(i))
        solved = solver.minimise(client, t.client_solvers.Tilt(weight=1.0, centre=centre), centre)
        phi = client.value(solved.point) + jnp.sum((solved.point - centre) ** 2) / 2
        return client.value(centre), phi, solved.queries

    for i in range(problem.clients):
        before, after, queries = solve(jnp.asarray(i, "int32"))
        assert np.isfinite(after) and after < before and queries > 0
