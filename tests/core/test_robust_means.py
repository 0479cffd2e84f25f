"""Robust means against NumPy programs that follow the papers, and what they promise against clients that send anything."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import turnout as t

MEANS = {
    "median": t.CoordinateMedian(),
    "trimmed": t.TrimmedMean(0.2),
    "geometric": t.GeometricMedian(),
    "clipping": t.CentredClipping(radius=0.7),
    "krum": t.Krum(byzantine=2),
}
every_mean = pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)


@jax.jit
def compiled(mean, replies, weights):
    return mean.centre(replies, weights)


def centre(mean, replies, weights) -> np.ndarray:
    return np.asarray(compiled(mean, replies, weights))


def made(clients: int, seed: int = 0, dimension: int = 3):
    """Replies and unequal weights that sum to one."""
    generator = np.random.default_rng(seed)
    weights = generator.uniform(0.2, 1, clients)
    return generator.normal(size=(clients, dimension)), weights / weights.sum()


@st.composite
def cohorts(draw):
    """A cohort with unequal weights."""
    return made(draw(st.sampled_from([7, 10, 11])), draw(st.integers(0, 2**32 - 1)))


def median(replies, weights):
    """The middle of all a with w(r < a) <= 1/2 and w(r > a) <= 1/2, by trying every value."""
    middles = []
    for values in replies.T:
        within = [a for a in values if weights[values < a].sum() <= 0.5 + 1e-9 and weights[values > a].sum() <= 0.5 + 1e-9]
        middles.append((min(within) + max(within)) / 2)
    return np.array(middles)


def trimmed(replies, weights, share):
    """The mean of many thin slices of weight, without those in the `share` at each end."""
    slices = 50_000
    means = []
    for values in replies.T:
        order = np.argsort(values)
        place = np.searchsorted(np.cumsum(weights[order]), (np.arange(slices) + 0.5) / slices)
        cut = round(share * slices)
        means.append(values[order][np.minimum(place, len(values) - 1)][cut : slices - cut].mean())
    return np.array(means)


def clipping(replies, weights, radius, iterations):
    v = median(replies, weights)
    for _ in range(iterations):
        lengths = np.maximum(np.linalg.norm(replies - v, axis=1), 1e-300)
        v = v + (weights * np.minimum(1, radius / lengths)) @ (replies - v)
    return v


def krum(replies, byzantine):
    scores = []
    for i, reply in enumerate(replies):
        squares = np.sort([((reply - other) ** 2).sum() for j, other in enumerate(replies) if j != i])
        scores.append(squares[: len(replies) - byzantine - 2].sum())
    return replies[np.argmin(scores)]


@pytest.mark.slow
@given(cohorts())
def test_medians_and_trimmed_means_are_those_of_the_definitions(cohort):
    replies, weights = cohort
    np.testing.assert_allclose(centre(t.CoordinateMedian(), replies, weights), median(replies, weights), rtol=1e-9)
    for share in (0.0, 0.1, 0.3):
        np.testing.assert_allclose(centre(t.TrimmedMean(share), replies, weights), trimmed(replies, weights, share), atol=1e-3)
    np.testing.assert_allclose(centre(t.TrimmedMean(0.0), replies, weights), weights @ replies, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("clients", [5, 8, 10, 15])
def test_with_equal_weights_they_are_those_of_yin_et_al(clients):
    replies, weights = made(clients)[0], np.full(clients, 1 / clients)
    np.testing.assert_allclose(centre(t.CoordinateMedian(), replies, weights), np.median(replies, 0), rtol=1e-9)
    for cut in range((clients - 1) // 2 + 1):
        inner = np.sort(replies, 0)[cut : clients - cut]
        np.testing.assert_allclose(centre(t.TrimmedMean(cut / clients), replies, weights), inner.mean(0), rtol=1e-9)


@pytest.mark.longer
@given(cohorts())
def test_the_geometric_median_has_the_least_sum_of_distances(cohort):
    replies, weights = cohort

    def total(v):
        return weights @ np.linalg.norm(replies - v, axis=1)

    best = minimize(total, weights @ replies, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 10_000})
    assert total(centre(t.GeometricMedian(iterations=500), replies, weights)) <= best.fun + 1e-6


@pytest.mark.longer
@given(cohorts())
def test_the_geometric_median_follows_weiszfelds_steps(cohort):
    replies, weights = cohort
    v = median(replies, weights)
    for _ in range(4):
        factors = weights / np.maximum(np.linalg.norm(replies - v, axis=1), 1e-6)
        v = factors @ replies / factors.sum()
    np.testing.assert_allclose(centre(t.GeometricMedian(iterations=4), replies, weights), v, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@given(cohorts(), st.sampled_from([0.1, 1.0, 10.0]), st.integers(1, 4))
def test_clipping_and_krum_are_those_of_the_papers(cohort, radius, iterations):
    replies, weights = cohort
    expected = clipping(replies, weights, radius, iterations)
    np.testing.assert_allclose(centre(t.CentredClipping(radius, iterations), replies, weights), expected, rtol=1e-8, atol=1e-10)
    for byzantine in (0, 1, 2):
        np.testing.assert_array_equal(centre(t.Krum(byzantine), replies, weights), krum(replies, byzantine))


@pytest.mark.tiers(quick=[], longer=["median", "trimmed", "clipping", "krum"])
@every_mean
@given(cohort=cohorts(), seed=st.integers(0, 99))
def test_the_order_of_clients_and_of_coordinates_does_not_matter(mean, cohort, seed):
    replies, weights = cohort
    order = np.random.default_rng(seed).permutation(len(weights))
    plain = centre(mean, replies, weights)
    np.testing.assert_allclose(centre(mean, replies[order], weights[order]), plain, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(centre(mean, replies[:, [2, 0, 1]], weights), plain[[2, 0, 1]], rtol=1e-7, atol=1e-9)


@pytest.mark.tiers(longer=["geometric"])
@every_mean
@given(cohort=cohorts(), shift=st.floats(-5, 5), factor=st.sampled_from([-1.0, 1.0]))
def test_a_shift_and_a_reflection_of_the_replies_are_those_of_the_mean(mean, cohort, shift, factor):
    replies, weights = cohort
    moved = centre(mean, factor * replies + shift, weights)
    np.testing.assert_allclose(moved, factor * centre(mean, replies, weights) + shift, rtol=1e-6, atol=1e-7)


@pytest.mark.tiers(quick=[], longer=["median", "trimmed"])
@every_mean
@given(cohort=cohorts(), others=st.integers(1, 4))
def test_a_client_without_weight_does_not_count(mean, cohort, others):
    replies, weights = cohort
    more = np.concatenate([replies, np.zeros((others, 3))]), np.concatenate([weights, np.zeros(others)])
    np.testing.assert_allclose(centre(mean, *more), centre(mean, replies, weights), rtol=1e-7, atol=1e-9)


ANY = st.sampled_from([1e300, -1e300, 1e30, -1e30, 0.0, 1.0, 7.0]) | st.floats(-100, 100)


@pytest.mark.longer
@given(st.data())
def test_a_few_clients_do_not_move_the_mean_beyond_the_honest_range(data):
    """Each coordinate, with equal weights and with others, whose share is below 1/2 or at most what is cut off."""
    replies, weights = data.draw(cohorts())
    if data.draw(st.booleans()):
        weights = np.full(len(weights), 1 / len(weights))
    bad = np.zeros(len(weights), bool)
    bad[: data.draw(st.integers(0, (len(weights) - 1) // 2))] = True
    share = weights[bad].sum()
    size = int(bad.sum()) * 3
    replies[bad] = np.array(data.draw(st.lists(ANY, min_size=size, max_size=size))).reshape(-1, 3)
    low, high = replies[~bad].min(0) - 1e-9, replies[~bad].max(0) + 1e-9
    means = [t.TrimmedMean(min(share, 0.499))] if share <= 0.499 else []
    for mean in [*means, *([t.CoordinateMedian()] if share < 0.5 - 1e-9 else [])]:
        found = centre(mean, replies, weights)
        assert (found >= low).all() and (found <= high).all(), (mean, found, low, high)


@every_mean
@pytest.mark.parametrize("value", [1e30, -1e30, 1e300])
def test_two_clients_of_ten_do_not_move_any_robust_mean_far(mean, value):
    """While they move the mean by a fifth of what they send."""
    replies, weights = made(10)[0], np.full(10, 0.1)
    honest = replies[2:].mean(0)
    replies[:2] = value
    assert np.abs(centre(mean, replies, weights) - honest).max() < 3
    assert np.abs(weights @ replies - honest).max() > 1e29


@pytest.mark.tiers(quick=[], longer=["krum"])
@every_mean
def test_replies_of_several_arrays_count_as_one_vector(mean):
    replies, weights = made(9, dimension=6)
    parts = {"a": jnp.asarray(replies[:, :4]).reshape(9, 2, 2), "b": (jnp.asarray(replies[:, 4]), jnp.asarray(replies[:, 5:]))}
    found = mean.centre(parts, jnp.asarray(weights))
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found)])
    np.testing.assert_allclose(flat, centre(mean, replies, weights), rtol=1e-7, atol=1e-9)


@every_mean
def test_single_precision_is_close_to_double(mean):
    replies, weights = made(11)
    single = centre(mean, replies.astype("float32"), weights.astype("float32"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, centre(mean, replies, weights), rtol=1e-3, atol=1e-4)


def test_krum_needs_enough_clients():
    with pytest.raises(t.UserError, match="needs cohorts of at least 7 clients, but has 4"):
        t.run(t.FedAvg(t.Nice(4), lr=0.1), t.Quadratic.random(12, 5), rounds=1, aggregation=t.Krum(2))
