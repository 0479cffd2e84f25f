"""Capped probabilities against bisection."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.samplers.probabilities.waterfilling import bounded, capped, mixed, normalised


def bisection(scores, size, floor=0.0):
    """p = clip(s a, floor, 1) with sum p = size, s found by halving the doubles between 0 and 1e300; [b, n] scores, [b] sizes."""
    scores, size = np.asarray(scores, float), np.asarray(size, float)[:, None]
    scores = scores / np.maximum(scores.max(1, keepdims=True), 1e-300)
    low = np.zeros((len(scores), 1), np.int64)
    high = np.full_like(low, np.float64(1e300).view(np.int64))
    for _ in range(64):
        middle = low + (high - low) // 2
        fits = np.clip(middle.view(float) * scores, floor, 1).sum(1, keepdims=True) <= size
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    p = np.clip(low.view(float) * scores, floor, 1)
    zero = scores == 0
    left = (size - (~zero).sum(1, keepdims=True)) / np.maximum(zero.sum(1, keepdims=True), 1)
    return np.where(zero & (left > floor), left, p)


def instances(n: int, count: int, rng):
    """Scores with ties and zeros over 200 orders of magnitude, and sizes that include 1 and n."""
    scores = 10 ** rng.uniform(-100, 100, (count, n)) * (rng.random((count, n)) > 0.2)
    near = 10 ** rng.normal(0, 1, (count, n))
    tied = 10.0 ** rng.integers(-2, 2, (count, n)) * rng.integers(0, 2, (count, n))
    kind = rng.integers(0, 3, (count, 1))
    scores = np.choose(kind, [scores, near, tied])
    kinds = rng.integers(0, 4, count)
    whole, real = rng.integers(1, n + 1, count) * 1.0, rng.uniform(0.01, n, count)
    sizes = np.choose(kinds, [1.0, float(n), whole, real])
    return scores, sizes


@pytest.mark.tiers(quick=["1", "2", "3", "4", "5", "7", "12", "30"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 12, 30, 100, 300])
def test_capped_probabilities_equal_bisection(n):
    scores, sizes = instances(n, 1000, np.random.default_rng(n))
    p = np.asarray(jax.jit(jax.vmap(capped))(scores, sizes))
    np.testing.assert_allclose(p, bisection(scores, sizes), rtol=0, atol=1e-12)
    assert p.min() >= 0 and p.max() <= 1
    assert max(abs(math.fsum(row) - size) for row, size in zip(p, sizes, strict=True)) <= 2 * n * np.finfo(float).eps


@pytest.mark.tiers(longer=["100"])
@pytest.mark.parametrize("n", [1, 2, 5, 12, 100])
def test_bounded_probabilities_equal_bisection(n):
    rng = np.random.default_rng(n)
    scores, sizes = instances(n, 1000, rng)
    floors = sizes / n * np.choose(rng.integers(0, 3, 1000), [0.0, 1.0, rng.random(1000)])
    p = np.asarray(jax.jit(jax.vmap(bounded))(scores, sizes, floors))
    np.testing.assert_allclose(p, bisection(scores, sizes, floors[:, None]), rtol=0, atol=1e-12)
    assert np.all(p >= floors[:, None]) and p.max() <= 1
    assert max(abs(math.fsum(row) - size) for row, size in zip(p, sizes, strict=True)) <= 4 * n * np.finfo(float).eps


@pytest.mark.slow
def test_capping_without_a_floor_is_the_same():
    scores, sizes = instances(20, 500, np.random.default_rng(3))
    low = jax.jit(jax.vmap(lambda a, k: bounded(a, k, jnp.zeros(()))))(scores, sizes)
    np.testing.assert_allclose(low, jax.vmap(capped)(scores, sizes), rtol=0, atol=1e-13)


@pytest.mark.longer
def test_among_some_clients_capping_is_capping_of_those():
    rng = np.random.default_rng(4)
    scores, sizes = instances(8, 200, rng)
    masks = rng.random((200, 8)) < rng.random((200, 1))
    masks[0] = False
    p, floored = (
        np.asarray(jax.jit(jax.vmap(f))(scores, sizes, masks)) for f in (capped, lambda a, k, m: bounded(a, k, k / 16, m))
    )
    for row, low, a, size, mask in zip(p, floored, scores, sizes, masks, strict=True):
        assert not row[~mask].any() and not low[~mask].any()
        if mask.any():
            size = np.array([min(size, mask.sum())])
            np.testing.assert_allclose(row[mask], bisection(a[mask][None], size)[0], rtol=0, atol=1e-12)
            assert abs(low.sum() - size[0]) < 1e-13


@pytest.mark.longer
def test_capping_minimises_what_it_says():
    """No small exchange of probability between two clients lowers sum a^2 / p."""
    scores, sizes = instances(6, 100, np.random.default_rng(5))
    scores = np.where(scores > 0, np.clip(scores, 1e-3, 1e3), 0.1)
    for p, a in zip(np.asarray(jax.vmap(capped)(scores, np.minimum(sizes, 5.5))), scores, strict=True):
        for i, j in itertools.permutations(range(6), 2):
            step = 0.01 * min(p[i], 1 - p[j])
            moved = p + step * (np.eye(6)[j] - np.eye(6)[i])
            assert np.sum(a**2 / moved) >= np.sum(a**2 / p) * (1 - 1e-14)


def test_single_precision_gives_the_same_to_its_rounding():
    scores, sizes = instances(30, 300, np.random.default_rng(6))
    scores = np.where(scores > 0, np.clip(scores, 1e-15, 1e15), 0)
    single = jax.jit(jax.vmap(capped))(scores.astype("float32"), sizes.astype("float32"))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, bisection(scores, sizes), atol=2e-5)


ANY = st.floats(0, math.inf, allow_subnormal=True)
together = jax.jit(
    lambda a, k, theta, m: (capped(a, k, m), bounded(a, k, k / 20, m), normalised(a, m), capped(mixed(a, theta, m), k, m))
)


@pytest.mark.longer
@given(
    st.lists(ANY, min_size=8, max_size=8), st.floats(1e-3, 8), st.floats(0, 1), st.lists(st.booleans(), min_size=8, max_size=8)
)
def test_no_scores_at_all_make_a_probability_out_of_range(scores, size, theta, mask):
    mask = np.array(mask)
    p, low, q, first = (np.asarray(a) for a in together(np.array(scores), size, theta, mask))
    for each in (p, low, q, first):
        assert np.all((each >= 0) & (each <= 1)) and not each[~mask].any()
    for each in (p, low, first):
        assert abs(each.sum() - min(size, mask.sum())) < 1e-13
    assert abs(q.sum() - mask.any()) < 1e-13
    assert np.all(first[mask] >= theta * min(size, mask.sum()) / 8 * (1 - 1e-12))
