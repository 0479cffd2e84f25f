"""Independent sampling: places, variance and the choice of the probabilities."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t

VECTORS = np.random.default_rng(0).normal(size=(4, 3))
P = np.array([0.2, 0.5, 0.9, 1.0])
FOUR = t.Population(4)


@pytest.mark.parametrize(
    ("sampler", "n", "capacity"),
    [
        (t.Independent(size=100.0), 10_000, np.ceil(100 + 6 * np.sqrt(99))),
        (t.Independent(probability=0.25), 10_000, 2500 + np.ceil(6 * np.sqrt(1875))),
        (t.Independent(probability=np.repeat([0.01, 0.02], 5000)), 10_000, np.ceil(150 + 6 * np.sqrt(147.5))),
        (t.Independent(t.KVib(), size=100.0), 10_000, np.ceil(100 + 6 * np.sqrt(99))),
        (t.Independent(probability=0.5), 10, 10),
        (t.Independent(size=1.0, capacity=7), 10_000, 7),
    ],
)
def test_a_cohort_has_places_for_its_mean_and_six_standard_deviations(sampler, n, capacity):
    assert sampler.bind(t.Population(n)).capacity == capacity


@pytest.mark.parametrize("probability", [P, 0.3])
def test_the_variance_is_exact(probability):
    """sum_i (1 / p_i - 1) |v_i|^2; who is away counts nothing."""
    sampler = t.Independent(probability=probability).bind(FOUR)
    p = np.broadcast_to(probability, 4)
    each = (1 / p - 1) * np.sum(VECTORS**2, axis=1)
    assert sampler.variance(None, FOUR, jnp.asarray(VECTORS)) == pytest.approx(each.sum(), rel=1e-12)
    on = np.array([True, False, True, True])
    some = replace(FOUR, available=jnp.asarray(on), presence=np.ones(4))
    assert sampler.variance(None, some, jnp.asarray(VECTORS)) == pytest.approx(each[on].sum(), rel=1e-12)


@pytest.mark.tiers(quick=[], longer=["0.6"])
@pytest.mark.parametrize("probability", [P, 0.6])
def test_who_is_away_is_not_drawn(probability):
    """And clients keep their places and their probabilities, whoever else is drawn."""
    on = np.array([False, True, True, False])
    some = replace(FOUR, available=jnp.asarray(on), presence=np.ones(4))
    sampler = t.Independent(probability=probability).bind(FOUR)
    drawn = jax.vmap(lambda key: sampler.draw(None, key, some))(jax.random.split(jax.random.key(0), 200))
    ids, active = np.asarray(drawn.ids), np.asarray(drawn.active)
    assert set(ids[active].tolist()) == {1, 2} and not np.any(drawn.lost)
    np.testing.assert_allclose(np.asarray(drawn.probability)[active], np.broadcast_to(probability, 4)[ids[active]])
    assert np.all(active[:, :-1] >= active[:, 1:])


@pytest.mark.tiers(quick=[], slow=["rule0"])
@pytest.mark.parametrize("rule", [t.Uniform(), t.BySize(sizes=np.array([1.0, 1.0, 2.0, 4.0]))])
def test_a_rule_gives_probabilities_that_sum_to_the_size(rule):
    sampler = t.Independent(rule, size=1.6).bind(FOUR)
    p = np.asarray(sampler.expected_draws(sampler.start(FOUR), FOUR))
    share = np.full(4, 0.25) if isinstance(rule, t.Uniform) else np.array([1, 1, 2, 4]) / 8
    np.testing.assert_allclose(p, 1.6 * share)
    drawn = jax.vmap(lambda key: sampler.draw(sampler.start(FOUR), key, FOUR))(jax.random.split(jax.random.key(0), 200))
    ids, active = np.asarray(drawn.ids), np.asarray(drawn.active)
    np.testing.assert_allclose(np.asarray(drawn.probability)[active], p[ids[active]])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.Independent(), "needs either probability or size"),
        (lambda: t.Independent(t.KVib()), "needs the size that its probabilities are to sum to"),
        (lambda: t.Independent(size=4.5).bind(FOUR), "'independent' wants 4.5 clients, but there are 4"),
        (lambda: t.Independent(probability=[0.5] * 3).bind(FOUR), "needs 1 or 4 probabilities"),
        (lambda: t.Independent(probability=[0.5] * 4, size=1.5).bind(FOUR), "sum to size = 1.5, not to 2"),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(t.UserError, match=words):
        make()
