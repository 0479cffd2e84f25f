"""Samplers: exact inclusion probabilities, unbiased averages, and draws that do not depend on n."""

import itertools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import turnout as t
from turnout.samplers.permutation import permute
from turnout.seeds import Seeds

DRAWS = 40_000
ALARM = 1e-4
"""A seeded test fails where chance alone would make it fail once in 10,000 choices of the seed."""


def draws(sampler, population, count=DRAWS):
    """Draw `count` cohorts in one compiled program."""
    sampler = sampler.bind(population)
    seeds = Seeds.of(7)
    draw = jax.jit(jax.vmap(lambda k: sampler.draw(sampler.start(population), seeds.draw(k, 0), population)))
    return draw(jnp.arange(count))


def subsets(cohorts) -> Counter:
    """Count how often each set of clients was drawn."""
    ids, active = np.asarray(cohorts.ids), np.asarray(cohorts.active)
    return Counter(frozenset(row[mask].tolist()) for row, mask in zip(ids, active, strict=True))


def chance(counts: Counter, expected: dict) -> float:
    """The probability of counts at least this far from the expected shares (chi-square)."""
    total = sum(counts.values())
    assert set(counts) <= set(expected)
    return stats.chisquare([counts[key] for key in expected], [share * total for share in expected.values()]).pvalue


@pytest.mark.parametrize(("n", "m"), [(4, 2), (6, 3), (7, 1), (9, 8), (10, 2), (3, 3)])
def test_nice_draws_every_subset_equally_often(n, m):
    counts = subsets(draws(t.Nice(m), t.Population(count=n)))
    all_subsets = [frozenset(c) for c in itertools.combinations(range(n), m)]
    if len(all_subsets) == 1:
        assert set(counts) == set(all_subsets)
    else:
        assert chance(counts, dict.fromkeys(all_subsets, 1 / len(all_subsets))) > ALARM


def test_nice_gives_every_order_of_a_pair_equally_often():
    ids = np.asarray(draws(t.Nice(2), t.Population(count=5)).ids)
    pairs = Counter(map(tuple, ids.tolist()))
    expected = dict.fromkeys(itertools.permutations(range(5), 2), 1 / 20)
    assert chance(pairs, expected) > ALARM


@given(n=st.integers(1, 3000), seed=st.integers(0, 2**31 - 1))
def test_the_permutation_is_one(n, seed):
    image = permute(jax.random.key(seed), jnp.arange(min(n, 64), dtype="int32"), n)
    assert len(set(image.tolist())) == min(n, 64)
    assert 0 <= int(image.min()) and int(image.max()) < n


@pytest.mark.parametrize("n", [1, 2, 3, 10, 101, 1000])
def test_the_whole_permutation_is_a_bijection(n):
    image = permute(jax.random.key(3), jnp.arange(n, dtype="int32"), n)
    np.testing.assert_array_equal(np.sort(image), np.arange(n))


def test_clients_of_a_huge_population_are_uniform_and_distinct():
    """100 of 10^8: fresh ids everywhere, and uniform on the line (Kolmogorov-Smirnov)."""
    n = 10**8
    ids = np.asarray(draws(t.Nice(100), t.Population(count=n), count=500).ids)
    assert all(len(set(row)) == 100 for row in ids.tolist())
    assert stats.kstest(ids.ravel() / n, "uniform").pvalue > ALARM


@pytest.mark.parametrize("n", [10**4, 10**8])
def test_a_draw_touches_only_its_own_places(n):
    """No array in the compiled draw is longer than a cohort of 100, so that the draw costs O(m)."""
    population = t.Population(count=n)
    for sampler in (t.Nice(100), t.Independent(size=20.0)):
        bound = sampler.bind(population)
        program = jax.make_jaxpr(lambda key, s=bound: s.draw(None, key, population))(jax.random.key(0))
        assert largest_array(program.jaxpr) <= 200


def largest_array(jaxpr) -> int:
    sizes = [v.aval.size for eqn in jaxpr.eqns for v in eqn.outvars if hasattr(v.aval, "size")]
    inner = []
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            for sub in value if isinstance(value, (tuple, list)) else [value]:
                sub = getattr(sub, "jaxpr", sub)
                if hasattr(sub, "eqns"):
                    inner.append(largest_array(sub))
    return max([0, *sizes, *inner])


@pytest.mark.parametrize("probability", [0.3, [0.1, 0.5, 0.9, 1.0]])
def test_independent_flips_a_coin_for_each_client(probability):
    p = np.broadcast_to(probability, 4)
    cohorts = draws(t.Independent(probability=probability, capacity=4), t.Population(count=4))
    expected = {}
    for size in range(5):
        for chosen in itertools.combinations(range(4), size):
            share = np.prod([p[i] if i in chosen else 1 - p[i] for i in range(4)])
            if share > 0:
                expected[frozenset(chosen)] = share
    assert chance(subsets(cohorts), expected) > ALARM
    assert not np.any(cohorts.lost)


@pytest.mark.parametrize("probability", [0.5, [0.5] * 10])
def test_clients_beyond_the_places_are_counted_as_lost(probability):
    cohorts = draws(t.Independent(probability=probability, capacity=3), t.Population(count=10), count=4000)
    size = np.asarray(cohorts.active).sum(axis=1)
    drawn = size + np.asarray(cohorts.lost)
    assert size.max() == 3
    expected = {k: float(stats.binom.pmf(k, 10, 0.5)) for k in range(11)}
    assert chance(Counter(drawn.tolist()), expected) > ALARM


def test_a_run_with_lost_clients_is_an_error():
    with pytest.raises(t.UserError, match="did not fit into a cohort's places"):
        t.run(t.MbGd(t.Independent(size=6.0, capacity=2), lr=0.1), t.Quadratic.random(12, 3), rounds=20)


def test_places_are_kept_for_six_standard_deviations():
    assert t.Independent(size=100.0).bind(t.Population(count=10_000)).capacity == int(np.ceil(100 + 6 * np.sqrt(99)))


def test_stratified_takes_one_client_of_each_stratum():
    strata = np.array([0, 1, 1, 2, 2, 2])
    counts = subsets(draws(t.Stratified(), t.Population(count=6, strata=strata)))
    expected = {frozenset((0, j, k)): 1 / 6 for j in (1, 2) for k in (3, 4, 5)}
    assert chance(counts, expected) > ALARM


def everything(population) -> list[t.Sampler]:
    return [
        t.Full(),
        t.Full(size=2),
        t.Nice(1),
        t.Nice(3),
        t.Independent(size=2.5),
        t.Independent(probability=list(np.linspace(0.2, 1.0, population.count))),
        t.Stratified(strata=[0, 0, 1, 1, 1, 2]),
    ]


@pytest.mark.parametrize("weights", [None, np.array([0.3, 0.1, 0.1, 0.2, 0.25, 0.05])])
@pytest.mark.parametrize("which", range(7))
def test_averages_are_unbiased_by_enumeration(which, weights):
    """sum over cohorts of P(S) average_S(r) = sum_i lambda_i r_i, with P(S) from the design itself."""
    population = t.Population(count=6, weights=weights)
    sampler = everything(population)[which].bind(population)
    share = np.full(6, 1 / 6) if weights is None else weights
    replies = np.random.default_rng(0).normal(size=(6, 3))
    mean = np.zeros(3)
    for chosen, chance_of in design(sampler).items():
        ids = jnp.array(sorted(chosen), "int32")
        cohort = t.Cohort.of(ids, inclusion(sampler)[np.array(sorted(chosen), int)], population, selection="arbitrary")
        mean += chance_of * t.Replies(jnp.asarray(replies[ids]), cohort, cohort.active).average()
    np.testing.assert_allclose(mean, share @ replies, rtol=1e-12, atol=1e-14)
    drawn = draws(everything(population)[which], population, count=64)
    active = np.asarray(drawn.active)
    np.testing.assert_allclose(
        np.asarray(drawn.weight)[active], (share / inclusion(sampler))[np.asarray(drawn.ids)[active]], rtol=1e-12
    )


def design(sampler) -> dict[tuple, float]:
    """Every cohort that a bound sampler over six clients can draw, with its probability."""
    if isinstance(sampler, t.Full):
        return {tuple(range(6)): 1.0}
    if isinstance(sampler, t.Nice):
        cohorts = list(itertools.combinations(range(6), sampler.size))
        return dict.fromkeys(cohorts, 1 / len(cohorts))
    if isinstance(sampler, t.Stratified):
        cohorts = [(a, b, 5) for a in (0, 1) for b in (2, 3, 4)]
        return dict.fromkeys(cohorts, 1 / 6)
    p = np.broadcast_to(sampler.probability, 6)
    return {
        tuple(np.flatnonzero(bits)): float(np.prod(np.where(bits, p, 1 - p)))
        for bits in map(np.array, itertools.product((0, 1), repeat=6))
    }


def inclusion(sampler) -> np.ndarray:
    """p_i, summed over the cohorts that hold client i."""
    p = np.zeros(6)
    for chosen, chance_of in design(sampler).items():
        p[list(chosen)] += chance_of
    return p


def test_a_full_pass_is_charged_as_selections_of_m_clients():
    for size, selections in ((None, 1), (12, 1), (5, 3), (1, 12)):
        trace = t.run(t.MbGd(t.Full(size=size), lr=0.1), t.Quadratic.random(12, 3), rounds=2)
        totals = trace.ledger.totals()
        assert (totals["draws_arbitrary"], totals["exchanges"], totals["contacts"]) == (2 * selections, 2, 24)


def test_a_delegates_reply_is_a_mean_but_no_average():
    population = t.Population(count=4)
    cohort = t.Delegate(client=2).bind(population).draw(None, jax.random.key(0), population)
    replies = t.Replies(jnp.array([[3.0, 4.0]]), cohort, cohort.active)
    np.testing.assert_array_equal(replies.mean(), [3.0, 4.0])
    assert (cohort.selection, cohort.ids.tolist()) == ("delegate", [2])
    with pytest.raises(t.UserError, match="no unbiased average"):
        replies.average()


def test_a_mean_weighs_those_who_answered_by_lambda():
    population = t.Population(count=3, weights=np.array([0.5, 0.3, 0.2]))
    cohort = t.Cohort.of([0, 1, 2], 1.0, population, selection="arbitrary")
    replies = t.Replies(jnp.array([1.0, jnp.nan, 6.0]), cohort, jnp.array([True, False, True]))
    assert replies.mean() == pytest.approx((0.5 * 1 + 0.2 * 6) / 0.7)
    assert t.Replies(replies.values, cohort, jnp.zeros(3, bool)).mean() == 0


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (lambda: t.Nice(13), "wants 13 clients, but there are 12"),
        (lambda: t.Nice(0), "must be at least 1"),
        (lambda: t.Full(size=20), "wants 20 clients"),
        (lambda: t.Independent(size=13.0), "wants 13"),
        (lambda: t.Independent(probability=1.5), "at most 1"),
        (lambda: t.Independent(probability=[0.5] * 11 + [0.0]), "probabilities in"),
        (lambda: t.Independent(probability=[0.5] * 3), "needs 1 or 12 probabilities"),
        (lambda: t.Independent(), "either probability or size"),
        (lambda: t.Stratified(), "needs strata"),
        (lambda: t.Stratified(strata=[0] * 11 + [2]), "stratum 1 has no clients"),
        (lambda: t.Stratified(strata=[0] * 5), "needs 12 strata"),
        (lambda: t.Delegate(client=12), "names client 12"),
    ],
)
def test_a_sampler_that_does_not_fit_says_so(sampler, words):
    with pytest.raises(t.UserError, match=words):
        t.run(t.MbGd(sampler(), lr=0.1), t.Quadratic.random(12, 3), rounds=1)
