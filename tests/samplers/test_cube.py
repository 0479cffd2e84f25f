"""The cube method: its strata, its balance, and how it moves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.samplers.test_designs import MANY, STRATA, UNEQUAL, K, N
from tests.samplers.test_samplers import draws
from turnout.samplers.cube import balance_preserving_direction

MOVE = jax.jit(balance_preserving_direction)


def counts_of_strata(sampler, population, count=200):
    ids = np.asarray(draws(sampler, population, count=count).ids)
    return np.stack([np.bincount(row, minlength=population.strata.max() + 1) for row in population.strata[ids]])


@pytest.mark.slow
def test_the_cube_draws_from_each_stratum_its_mean_rounded():
    mean = np.bincount(STRATA, weights=UNEQUAL)
    counts = counts_of_strata(t.Cube(UNEQUAL, size=K), MANY)
    assert np.all((counts >= np.floor(mean)) & (counts <= np.ceil(mean)))
    np.testing.assert_array_equal(counts.sum(axis=1), K)
    whole = counts_of_strata(t.Cube(size=8), t.Population(count=20, strata=np.arange(20) % 4))
    assert np.all(whole == 2)


@pytest.mark.tiers(quick=[], slow=["4"])
@pytest.mark.parametrize("r", [1, 4])
def test_the_cube_is_balanced_up_to_its_landing(r):
    """At most r + 1 clients are undecided when columns are given up, and each changes sum x_i / p_i by at most |x_i| / p_i."""
    x = UNEQUAL[:, None] * np.random.default_rng(r).normal(size=(N, r))
    ids = np.asarray(draws(t.Cube(UNEQUAL, size=K, balance=x), MANY, count=500).ids)
    ratios = x / UNEQUAL[:, None]
    error = np.abs(ratios[ids].sum(axis=1) - x.sum(0))
    assert np.all(error <= np.sort(np.abs(ratios), axis=0)[-(r + 1) :].sum(0))
    plain = np.asarray(draws(t.Pivotal(UNEQUAL, size=K), MANY, count=500).ids)
    assert np.mean(error**2) < 0.5 * np.mean((ratios[plain].sum(axis=1) - x.sum(0)) ** 2)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_a_move_of_the_cube_keeps_the_first_columns_that_it_can(seed, free):
    """With m clients free the first m - 1 of columns in general position stay balanced."""
    generator = np.random.default_rng(seed)
    z, on = generator.normal(size=(5, 4)), np.arange(5) < free
    v = np.asarray(MOVE(jnp.asarray(z), jnp.asarray(on)))
    assert np.max(np.abs(v)) == pytest.approx(1) and np.all(v[~on] == 0)
    np.testing.assert_allclose(z.T[: free - 1] @ v, 0, atol=1e-9)
