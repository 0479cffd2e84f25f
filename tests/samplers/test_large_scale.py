"""The large-scale sampler: its probabilities, its draws, its sums, its checkpoints, and what it refuses."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from turnout.core.errors import UserError
from turnout.samplers.large_scale import BySize, KVib, LargeScaleSampler, LastNorm, Uniform, Vrb
from turnout.samplers.large_scale.buckets import BUCKET_COUNT, MIN_SCORE, locate

BOUND = 0.7


def stored(**changes):
    """The arrays of a sampler of three clients, with some of them changed."""
    return LargeScaleSampler(Uniform(), 1, 3).arrays() | changes


def capped(scores, size):
    """min(1, a / nu) with sum K in extended precision, by trying every number of capped clients; zeros share what is left."""
    a = np.asarray(scores, np.longdouble)
    if np.count_nonzero(a) <= size:
        left = (size - np.count_nonzero(a)) / max(1, np.count_nonzero(a == 0))
        return np.where(a > 0, 1.0, left)
    sums = np.cumsum(np.sort(a))
    for k in range(size):
        nu = sums[a.size - 1 - k] / (size - k)
        if np.sort(a)[a.size - 1 - k] <= nu:
            return np.minimum(1, a / nu).astype(float)
    raise AssertionError("no threshold")


class Dense:
    """The same rules on plain arrays, written from the formulas."""

    def __init__(self, rule, size, n, weights=None):
        self.rule, self.size, self.n, self.g, self.omega = rule, size, n, 0.0, np.zeros(n)
        self.weights = np.full(n, 1 / n) if weights is None else weights / weights.sum()
        self.last = np.full(n, np.nan)
        if isinstance(rule, KVib):
            self.theta = rule.mixing if rule.mixing is not None else min(1, (n / (rule.rounds * size)) ** (1 / 3))
        if isinstance(rule, Vrb):
            self.theta = rule.mixing if rule.mixing is not None else (n / rule.rounds) ** (1 / 3) if n <= rule.rounds else 0.3

    def probability(self):
        n, size, rule = self.n, self.size, self.rule
        if isinstance(rule, Uniform):
            return np.full(n, size / n)
        if isinstance(rule, BySize):
            return capped(self.weights, size)
        if isinstance(rule, LastNorm):
            a = np.where(np.isnan(self.last), self.weights * (self.g or 1), self.last)
            return capped((1 - rule.mixing) * a + rule.mixing * a.mean(), size)
        bound = rule.bound or self.g or 1.0
        gamma = bound**2 * n / ((size if isinstance(rule, KVib) else 1) * (self.theta or 1.0))
        a = np.sqrt(self.omega + gamma)
        if isinstance(rule, Vrb):
            return (1 - self.theta) * a / a.sum() + self.theta / n
        return (1 - self.theta) * capped(a, size) + self.theta * size / n

    def observe(self, ids, feedback):
        p = self.probability()[ids]
        if isinstance(self.rule, LastNorm):
            heard = self.weights[ids] > 0
            norms, weights = (feedback / np.where(heard, self.weights[ids], 1))[heard], (self.weights[ids] / p)[heard]
            if heard.any():
                self.g = 0.9 * self.g + 0.1 * np.sum(norms * weights) / weights.sum() if self.g else norms.mean()
            self.last[ids] = feedback
        elif isinstance(self.rule, (KVib, Vrb)):
            self.g = self.g or feedback.mean()
            if self.rule.bound or self.g:
                np.add.at(self.omega, ids, feedback**2 / p)


RULES = [
    KVib(rounds=50), KVib(mixing=0.0), KVib(rounds=7, bound=BOUND), KVib(mixing=1.0), Vrb(rounds=50), Vrb(rounds=3, bound=BOUND),
    LastNorm(), LastNorm(mixing=0.5), LastNorm(mixing=1.0), BySize(), Uniform(),
]  # fmt: skip


def made(rule, size, n, weights):
    return LargeScaleSampler(rule, size, weights=weights) if rule.needs_weights else LargeScaleSampler(rule, size, n)


@pytest.mark.parametrize("rule", [pytest.param(RULES[0], marks=pytest.mark.slow), *RULES[1:]], ids=repr)
@settings(max_examples=60)
@given(data=st.data())
def test_probabilities_are_the_dense_ones(rule, data):
    n = data.draw(st.integers(1, 60))
    size = data.draw(st.one_of(st.just(1), st.just(n), st.integers(1, n)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    spread = data.draw(st.sampled_from([0, 1, 10, 60]))
    weights = 10.0 ** rng.uniform(-spread, spread, n) * rng.integers(0, 2 + 8 * data.draw(st.booleans()), n)
    weights[0] = 1.0
    index, dense = made(rule, size, n, weights), Dense(rule, size, n, weights if rule.needs_weights else None)
    for _ in range(data.draw(st.integers(0, 12))):
        ids, _ = index.draw(rng)
        few = np.array([0.0, 1.0, 1.0, 2.5])[rng.integers(0, 4, n)]
        feedback = (few * 10.0 ** rng.integers(-spread // 2, spread // 2 + 1, n))[ids]
        for one in (index, dense):
            if ids.size:
                one.observe(ids, feedback)
        p = index.probability(np.arange(n))
        np.testing.assert_allclose(p, dense.probability(), rtol=1e-12, atol=0)
        np.testing.assert_allclose(p.sum(), 1 if rule.replacement else size, rtol=1e-13)
        assert p.max() <= 1


def test_scores_over_two_hundred_orders_of_magnitude():
    rng = np.random.default_rng(0)
    for size in (1, 3, 50, 299, 300):
        weights = 10.0 ** rng.uniform(-100, 100, 300)
        weights[:5], weights[5:9] = 0, weights.max()
        p = LargeScaleSampler(BySize(), size, weights=weights).probability(np.arange(300))
        np.testing.assert_allclose(p, capped(weights, size), rtol=1e-12)


def test_weights_too_small_beside_the_others_count_as_zero():
    index = LargeScaleSampler(BySize(), 1, weights=[1.0, 1.0, 1e-200])
    assert index.probability([2])[0] == 0 and 1e-200 < MIN_SCORE


def settled(rule, size, n, rounds=60):
    """An index after some rounds, with clients whose feedback differs much."""
    rng = np.random.default_rng(5)
    norms = rng.lognormal(0, 2.5, n)
    index = made(rule, size, n, norms)
    for _ in range(rounds):
        ids, _ = index.draw(rng)
        if ids.size:
            index.observe(ids, norms[ids])
    return index, rng


@pytest.mark.parametrize("rule", [KVib(rounds=50), LastNorm(), BySize()], ids=repr)
def test_each_client_is_drawn_by_its_own_coin(rule):
    n, size, draws = 300, 20, 40_000
    index, rng = settled(rule, size, n)
    p = index.probability(np.arange(n))
    assert p.max() / p.min() > 5
    taken = np.zeros((draws, n), np.float32)
    for k in range(draws):
        ids, given_p = index.draw(rng)
        assert np.unique(ids).size == ids.size and np.array_equal(given_p, p[ids])
        taken[k, ids] = 1
    sure = p == 1
    assert taken[:, sure].all()
    deviations = (taken.sum(0, dtype=float) - draws * p)[~sure] / np.sqrt(draws * p * (1 - p))[~sure]
    assert stats.chi2.sf(np.sum(deviations**2), deviations.size) > 1e-4
    # Coins that do not know of each other: standardised products of pairs are of mean 0 and variance 1 / draws.
    often = np.flatnonzero(~sure)[np.argsort(-p[~sure])[:60]]
    z = (taken[:, often] - p[often]) / np.sqrt(p[often] * (1 - p[often]))
    pairs = (z.T @ z)[np.triu_indices(often.size, 1)] / np.sqrt(draws)
    assert stats.kstest(pairs, "norm").pvalue > 1e-4
    sizes = taken.sum(1)
    np.testing.assert_allclose(sizes.var(), np.sum(p * (1 - p)), rtol=5 * np.sqrt(2 / draws))


def test_draws_with_replacement_have_the_stated_frequencies():
    n, size, draws = 200, 10, 30_000
    index, rng = settled(Vrb(rounds=1000), size, n)
    q = index.probability(np.arange(n))
    taken = np.concatenate([index.draw(rng)[0] for _ in range(draws)])
    assert taken.size == size * draws
    assert stats.chisquare(np.bincount(taken, minlength=n), q * taken.size).pvalue > 1e-4
    following = np.zeros((4, 4))
    group = np.digitize(np.cumsum(q)[taken], [0.25, 0.5, 0.75])
    np.add.at(following, (group[:-1], group[1:]), 1)
    assert stats.chi2_contingency(following).pvalue > 1e-4


@pytest.mark.parametrize("rule", [KVib(rounds=50), LastNorm()], ids=repr)
def test_the_integer_sums_equal_recomputation(rule):
    buckets = settled(rule, 30, 500, rounds=300)[0]._buckets
    scores, keys = (np.array(column) for column in zip(*(locate(buckets, i) for i in range(500)), strict=True))
    order, bucket = buckets.client["order"], buckets.bucket
    assert np.array_equal(order[buckets.client["place"]], np.arange(500))
    assert all(a <= b for a, b in pairwise(keys[order]))
    assert np.array_equal(np.diff(bucket["start"]), np.bincount(keys, minlength=BUCKET_COUNT))
    for at in np.unique(keys[keys > 1]):
        mantissas = np.ldexp(np.frexp(scores[keys == at])[0], 53)
        assert sum(int(m) for m in mantissas) == (int(bucket["high"][at]) << 26) + int(bucket["low"][at])


def test_five_million_updates_do_not_drift():
    n, rule = 1000, LastNorm(mixing=0.01)
    index, rng, ids = LargeScaleSampler(rule, 20, n), np.random.default_rng(3), np.arange(n)
    for _ in range(5000):
        feedback = rng.lognormal(0, 3, n)
        index.observe(ids, feedback)
    dense = capped((1 - rule.mixing) * feedback + rule.mixing * feedback.mean(), 20)
    np.testing.assert_allclose(index.probability(ids), dense, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_restored_index_continues_bit_for_bit(rule, tmp_path):
    index, rng = settled(rule, 12, 80, rounds=20)
    np.savez(tmp_path / "index.npz", **index.arrays())
    twin, state = np.random.default_rng(0), rng.bit_generator.state
    twin.bit_generator.state = state
    with np.load(tmp_path / "index.npz") as arrays:
        other = LargeScaleSampler.restore(rule, 12, arrays)
    for _ in range(20):
        (ids, p), (ids2, p2) = index.draw(rng), other.draw(twin)
        assert np.array_equal(ids, ids2) and np.array_equal(p, p2)
        for one in (index, other):
            one.observe(ids, 1.0 + ids % 7)
    for name, array in index.arrays().items():
        assert np.array_equal(array, other.arrays()[name])


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize(
    ("ids", "feedback", "words"),
    [
        ([0, 1], [1.0, -1.0], "at least 0"),
        ([0, 1], [np.nan, 1.0], "at least 0"),
        ([0, 1], [1.0, np.inf], "below"),
        ([0, 80], [1.0, 1.0], "not one of the 80"),
        ([-1, 3], [1.0, 1.0], "not one of the 80"),
        ([0, 1], [1.0], "one feedback for each"),
        ([0.5], [1.0], "whole numbers"),
    ],
)
def test_bad_feedback_leaves_all_as_it_was(rule, ids, feedback, words):
    index, _ = settled(rule, 12, 80, rounds=5)
    before, p = index.arrays(), index.probability(np.arange(80))
    with pytest.raises(UserError, match=words):
        index.observe(ids, feedback)
    assert all(np.array_equal(array, index.arrays()[name]) for name, array in before.items())
    assert np.array_equal(p, index.probability(np.arange(80)))
    client = index._buckets.client
    assert np.array_equal(client["order"][client["place"]], np.arange(80))


def test_a_client_may_come_twice_only_with_replacement():
    with pytest.raises(UserError, match="client 3 comes twice"):
        LargeScaleSampler(KVib(rounds=9), 2, 10).observe([3, 3], [1.0, 2.0])
    LargeScaleSampler(Vrb(rounds=9), 2, 10).observe([3, 3], [1.0, 2.0])


@pytest.mark.parametrize(
    ("rule", "feedback"), [(KVib(rounds=9, bound=1e-200), [1e100]), (LastNorm(mixing=0.0), [1e153])], ids=["k-vib", "last-norm"]
)
def test_feedback_that_would_overflow_is_refused(rule, feedback):
    index = LargeScaleSampler(rule, 2, 10**4)
    before = index.arrays()
    with pytest.raises(UserError, match="too large"):
        index.observe([3], feedback)
    assert all(np.array_equal(array, index.arrays()[name]) for name, array in before.items())


def test_feedback_of_zero_teaches_nothing():
    index = LargeScaleSampler(KVib(rounds=9), 2, 10)
    index.observe([], [])
    index.observe([1, 2], [0.0, 0.0])
    np.testing.assert_allclose(index.probability(np.arange(10)), 0.2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LargeScaleSampler(Uniform(), 11, 10), "between 1 and the 10 clients"),
        (lambda: LargeScaleSampler(Uniform(), 0, 10), "between 1 and the 10 clients"),
        (lambda: LargeScaleSampler(Uniform(), 1, 0), "between 1 and"),
        (lambda: LargeScaleSampler(Uniform(), 1), "but got None"),
        (lambda: LargeScaleSampler(KVib(mixing=1.5), 1, 10), "at most 1"),
        (lambda: LargeScaleSampler(LastNorm(mixing=-0.1), 1, 10), "at least 0"),
        (lambda: LargeScaleSampler(KVib(), 1, 10), "give rounds or mixing"),
        (lambda: LargeScaleSampler(KVib(rounds=9), 1, weights=[1.0]), "takes no weights"),
        (lambda: LargeScaleSampler(BySize(), 1, 10), "needs the clients' weights"),
        (lambda: LargeScaleSampler(BySize(), 1, weights=[1.0, -1.0]), "at least 0"),
        (lambda: LargeScaleSampler(BySize(), 1, weights=[1.0, np.inf]), "finite"),
        (lambda: LargeScaleSampler(BySize(), 1, weights=[0.0, 0.0]), "not all 0"),
        (lambda: LargeScaleSampler(Uniform(), 1, 10).probability([10]), "not one of the 10"),
        (lambda: LargeScaleSampler.restore(Uniform(), 2, LargeScaleSampler(Uniform(), 1, 10).arrays()), "with size 1, not of"),
        (lambda: LargeScaleSampler.restore(Uniform(), 1, {}), "needs the array 'value'"),
        (
            lambda: LargeScaleSampler.restore(Uniform(), 1, stored(order=np.array([0, 0, 1]))),
            "order",
        ),
        (
            lambda: LargeScaleSampler.restore(Uniform(), 1, stored(value=np.full(3, np.nan))),
            "damaged",
        ),
        (
            lambda: LargeScaleSampler.restore(Uniform(), 1, stored(unit=np.array(np.nan))),
            "damaged",
        ),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(make, words):
    with pytest.raises(UserError, match=words):
        make()


def test_without_numba_it_says_what_to_install():
    code = """import sys; sys.modules['numba'] = None
try: import turnout.samplers.large_scale
except ValueError as error: print(error)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "turnout.samplers.large_scale needs numba: install it with pip install 'turnout[scale]'\n"
