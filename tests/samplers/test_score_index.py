"""The index of scores: its probabilities, draws, sums and checkpoints, and that rules are the same with and without it."""

import math
import subprocess
import sys
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import turnout as t
from turnout.core.errors import UserError
from turnout.samplers.indexed import Indexed, indexed
from turnout.samplers.score_index.buckets import BUCKET_COUNT, MIN_SCORE, locate
from turnout.samplers.score_index.index import ScoreIndex


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


def probabilities(scores, unit, size, theta, *, mixes_before_cap, replacement):
    """The probabilities by their formulas: scores of clients without feedback are negative, and count `unit` times."""
    a = np.where(np.signbit(scores), -scores * (unit or 1), scores)
    if replacement:
        q = a / a.sum() if a.sum() else np.full(a.size, 1 / a.size)
        return (1 - theta) * q + theta / a.size
    if mixes_before_cap:
        return capped((1 - theta) * a + theta * a.mean(), size)
    return (1 - theta) * capped(a, size) + theta * size / a.size


@pytest.mark.slow
@settings(max_examples=150)
@given(data=st.data())
def test_probabilities_are_those_of_the_formulas(data):
    n = data.draw(st.integers(1, 60))
    size = data.draw(st.one_of(st.just(1), st.just(n), st.integers(1, n)))
    theta = data.draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    how = data.draw(st.fixed_dictionaries({"mixes_before_cap": st.booleans(), "replacement": st.booleans()}))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    spread = data.draw(st.sampled_from([0, 1, 10, 60]))

    def some(count):
        return 10.0 ** rng.uniform(-spread, spread, count) * rng.integers(0, 2 + 8 * data.draw(st.booleans()), count)

    scores, unit = some(n) * rng.choice([1.0, -1.0], n), 0.0
    index = ScoreIndex(scores, size, theta, **how)
    for _ in range(data.draw(st.integers(0, 12))):
        ids = np.flatnonzero(rng.random(n) < 0.4)
        scores[ids], unit = some(ids.size), float(10.0 ** rng.uniform(-spread, spread))
        index.set(ids, scores[ids], unit)
    p = index.probabilities(np.arange(n))
    np.testing.assert_allclose(p, probabilities(scores, unit, size, theta, **how), rtol=1e-12, atol=0)
    np.testing.assert_allclose(p.sum(), 1 if how["replacement"] else size, rtol=1e-13)
    assert p.max() <= 1


BY_RULE = {
    "k-vib": t.Independent(t.KVib(rounds=500), size=20.0),
    "last-norm": t.Independent(t.LastNorm(), size=20.0),
    "vrb": t.WithReplacement(t.Vrb(rounds=500), size=20),
    "last-norm, replacement": t.WithReplacement(t.LastNorm(mixing=0.2), size=20),
    "k-vib, bound": t.Independent(t.KVib(bound=0.7, mixing=0.1), size=20.0),
    "k-vib, replacement": t.WithReplacement(t.KVib(rounds=500), size=20),
    "size": t.Independent(t.BySize(sizes=np.arange(1.0, 301.0)), size=20.0),
    "size, replacement": t.WithReplacement(t.BySize(sizes=np.arange(1.0, 301.0)), size=20),
}
ROUNDS = 10_000


@pytest.mark.tiers(quick=[], slow=["k-vib"])
@pytest.mark.parametrize("name", BY_RULE)
def test_rules_are_the_same_over_arrays_and_over_an_index(name):
    weights, held = np.random.default_rng(1).lognormal(0, 1, 300), []
    with jax.enable_x64(True):
        population = t.Population(300, weights / weights.sum())
        dense = BY_RULE[name].bind(population)
        other = indexed(dense, population, held)
        assert isinstance(other, Indexed)
        typical = jnp.asarray(np.random.default_rng(2).lognormal(0, 1.5, 300))

        @jax.jit
        def play(states, first):
            def one(k, states):
                key = jax.random.fold_in(jax.random.key(3), first + k)
                cohort = other.draw(states[1], key, population)
                feedback = typical[cohort.ids] * jax.random.exponential(key, (cohort.places,))
                return dense.observe(states[0], cohort, feedback), other.observe(states[1], cohort, feedback)

            states = jax.lax.fori_loop(0, ROUNDS // 10, one, states)
            return states, dense.expected_draws(states[0], population), other.expected_draws(states[1], population)

        states = dense.start(population), other.start(population)
        for part in range(10):
            states, over_arrays, over_index = play(states, part * (ROUNDS // 10))
            np.testing.assert_allclose(over_index, over_arrays, rtol=1e-12)
    if dense.learns_from_feedback:
        assert np.ptp(over_arrays) > 0.05


def test_what_draws_in_few_operations_by_itself_needs_no_index():
    population = t.Population(10)
    for sampler in (t.Nice(3), t.Independent(size=3.0), t.Pivotal(t.KVib(rounds=9), size=3), t.Independent([0.5] * 10)):
        bound = sampler.bind(population)
        assert indexed(bound, population, []) is bound


@pytest.mark.slow
def test_scores_over_two_hundred_orders_of_magnitude():
    rng = np.random.default_rng(0)
    for size in (1, 3, 50, 299, 300):
        scores = 10.0 ** rng.uniform(-100, 100, 300)
        scores[:5], scores[5:9] = 0, scores.max()
        index = ScoreIndex(scores, size, 0.0, mixes_before_cap=False, replacement=False)
        np.testing.assert_allclose(index.probabilities(np.arange(300)), capped(scores, size), rtol=1e-12)


@pytest.mark.slow
def test_scores_too_small_beside_the_others_count_as_zero():
    index = ScoreIndex(np.array([1.0, 1.0, 1e-200]), 1, 0.0, mixes_before_cap=False, replacement=False)
    assert index.probabilities(np.array([2]))[0] == 0 and 1e-200 < MIN_SCORE


def settled(n, size, theta=0.05, rounds=60, spread=2.5, *, mixes_before_cap=False, replacement=False):
    """An index after some rounds, with scores that differ much."""
    rng = np.random.default_rng(5)
    index = ScoreIndex(-np.ones(n), size, theta, mixes_before_cap=mixes_before_cap, replacement=replacement)
    for _ in range(rounds):
        ids = np.unique(index.draw(rng)[0])
        index.set(ids, rng.lognormal(0, spread, ids.size), 1.3)
    return index, rng


@pytest.mark.tiers(quick=[], slow=["True"])
@pytest.mark.parametrize("mixes_before_cap", [False, True])
def test_each_client_is_drawn_by_its_own_coin(mixes_before_cap):
    n, size, draws = 300, 20, 40_000
    index, rng = settled(n, size, mixes_before_cap=mixes_before_cap)
    p = index.probabilities(np.arange(n))
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


@pytest.mark.slow
def test_draws_with_replacement_have_the_stated_frequencies():
    n, size, draws = 200, 10, 30_000
    index, rng = settled(n, size, spread=1.0, replacement=True)
    q = index.probabilities(np.arange(n))
    taken = np.concatenate([index.draw(rng)[0] for _ in range(draws)])
    assert taken.size == size * draws
    assert stats.chisquare(np.bincount(taken, minlength=n), q * taken.size).pvalue > 1e-4
    following = np.zeros((4, 4))
    group = np.digitize(np.cumsum(q)[taken], [0.25, 0.5, 0.75])
    np.add.at(following, (group[:-1], group[1:]), 1)
    assert stats.chi2_contingency(following).pvalue > 1e-4


@pytest.mark.longer
def test_draws_with_replacement_are_uniform_where_all_scores_are_zero():
    index = ScoreIndex(np.zeros(5), 4, 0.0, mixes_before_cap=False, replacement=True)
    taken = np.concatenate([index.draw(np.random.default_rng(k))[0] for k in range(2000)])
    assert stats.chisquare(np.bincount(taken, minlength=5)).pvalue > 1e-4


@pytest.mark.longer
def test_the_integer_sums_equal_recomputation():
    buckets = settled(500, 30, rounds=300)[0]._buckets
    scores, keys = (np.array(column) for column in zip(*(locate(buckets, i) for i in range(500)), strict=True))
    order, bucket = buckets.client["order"], buckets.bucket
    assert np.array_equal(order[buckets.client["place"]], np.arange(500))
    assert all(a <= b for a, b in pairwise(keys[order]))
    assert np.array_equal(np.diff(bucket["start"]), np.bincount(keys, minlength=BUCKET_COUNT))
    for at in np.unique(keys[keys > 1]):
        mantissas = np.ldexp(np.frexp(scores[keys == at])[0], 53)
        assert sum(int(m) for m in mantissas) == (int(bucket["high"][at]) << 26) + int(bucket["low"][at])


@pytest.mark.longer
def test_five_million_updates_do_not_drift():
    n, rng = 1000, np.random.default_rng(3)
    index = ScoreIndex(np.ones(n), 20, 0.01, mixes_before_cap=True, replacement=False)
    for _ in range(5000):
        scores = rng.lognormal(0, 3, n)
        index.set(np.arange(n), scores, 1.0)
    dense = capped(0.99 * scores + 0.01 * scores.mean(), 20)
    np.testing.assert_allclose(index.probabilities(np.arange(n)), dense, rtol=1e-12)


def test_an_update_writes_as_much_for_many_clients_as_for_few():
    """Section G of K-Vib: K scores of N clients change in O(K log N) operations."""

    def written(clients):
        rng = np.random.default_rng(0)
        index = ScoreIndex(rng.lognormal(size=clients), 20, 0.01, mixes_before_cap=True, replacement=False)
        index.set(np.arange(clients), rng.lognormal(size=clients), 1.0)
        most = 0
        for _ in range(20):
            before = [array.copy() for array in index._buckets]
            index.set(rng.choice(clients, 20, replace=False), rng.lognormal(size=20), 1.0)
            most = max(most, sum(np.count_nonzero(old != new) for old, new in zip(before, index._buckets, strict=True)))
        return most

    assert written(50_000) <= 1.5 * written(1_000) and written(50_000) <= 20 * math.log2(50_000)


@pytest.mark.longer
@pytest.mark.tiers(longer=["True"])
@pytest.mark.parametrize("replacement", [False, True])
def test_a_restored_index_continues_bit_for_bit(replacement, tmp_path):
    index, rng = settled(80, 12, rounds=20, replacement=replacement)
    np.savez(tmp_path / "index.npz", **index.arrays())
    twin = np.random.default_rng(0)
    twin.bit_generator.state = rng.bit_generator.state
    other = ScoreIndex(np.ones(80), 12, 0.05, mixes_before_cap=False, replacement=replacement)
    with np.load(tmp_path / "index.npz") as arrays:
        other.restore(arrays)
    for _ in range(20):
        (ids, p), (ids2, p2) = index.draw(rng), other.draw(twin)
        assert np.array_equal(ids, ids2) and np.array_equal(p, p2)
        ids = np.unique(ids)
        for one in (index, other):
            one.set(ids, 1.0 + ids % 7, 2.0)
    for name, array in index.arrays().items():
        assert np.array_equal(array, other.arrays()[name])


@pytest.mark.parametrize(
    ("ids", "scores", "words"),
    [
        ([0, 1], [1.0, -1.0], "score of a client is -1"),
        ([0, 1], [np.nan, 1.0], "score of a client is nan"),
        ([0, 1], [1.0, np.inf], "too large beside"),
        ([0, 1], [1.0, 1e155], "too large beside"),
        ([0, 80], [1.0, 1.0], "80 is not one of the 80"),
        ([-1, 3], [1.0, 1.0], "-1 is not one of the 80"),
        ([3, 3], [1.0, 1.0], "client 3 comes twice"),
    ],
)
def test_bad_scores_leave_all_as_it_was(ids, scores, words):
    index, _ = settled(80, 12, rounds=5)
    before, p = index.arrays(), index.probabilities(np.arange(80))
    with pytest.raises(UserError, match=words):
        index.set(np.array(ids), np.array(scores), 1.0)
    assert all(np.array_equal(array, index.arrays()[name]) for name, array in before.items())
    assert np.array_equal(p, index.probabilities(np.arange(80)))
    client = index._buckets.client
    assert np.array_equal(client["order"][client["place"]], np.arange(80))


def made(**changes):
    """An index of three clients from its arrays, with some of them changed."""
    index = ScoreIndex(np.ones(3), 1, 0.0, mixes_before_cap=False, replacement=False)
    index.restore(index.arrays() | changes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (partial(ScoreIndex, np.ones(0), 1, 0.0, mixes_before_cap=False, replacement=False), "between 1 and"),
        (partial(ScoreIndex, np.array([np.nan]), 1, 0.0, mixes_before_cap=False, replacement=False), "nan"),
        (partial(made, score=np.ones(4)), "1 clients|4 clients"),
        (partial(made, order=np.array([0, 0, 1])), "order of the clients"),
        (partial(made, score=np.full(3, np.nan)), "nan"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(make, words):
    with pytest.raises(UserError, match=words):
        make()


def test_without_numba_it_says_what_to_install():
    code = """import sys; sys.modules['numba'] = None
try: import turnout.samplers.score_index.index
except ValueError as error: print(error)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "clients on disk, and draws among very many, need numba: pip install 'turnout[scale]'\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["last-norm", "vrb"])
def test_an_index_learns_the_same_in_single_precision_and_outside_of_programs(name):
    population, held = t.Population(300), []
    probabilities = {}
    for double in (True, False):
        with jax.enable_x64(double):
            sampler = indexed(BY_RULE[name].bind(population), population, held)
            state = sampler.start(population)
            for k in range(5):
                cohort = sampler.draw(state, jax.random.key(k), population)
                state = sampler.observe(state, cohort, jnp.sqrt(1.0 + cohort.ids.astype(float)))
            probabilities[double] = np.asarray(sampler.expected_draws(state, population))
    np.testing.assert_allclose(probabilities[True], probabilities[False], rtol=1e-5)
