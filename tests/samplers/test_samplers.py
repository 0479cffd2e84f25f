"""Samplers: exact inclusion probabilities, unbiased averages, and draws that do not depend on n."""

import itertools
from collections import Counter

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from scipy import stats

import turnout as t
from tests.helpers.enumeration import DESIGNS, WEIGHTS, enumerate_subsets, six
from turnout.core.permutation import permute
from turnout.core.seeds import Seeds

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


@pytest.mark.tiers(quick=["4-2", "6-3", "9-8"])
@pytest.mark.parametrize(("n", "m"), [(4, 2), (6, 3), (7, 1), (9, 8), (10, 2), (3, 3)])
def test_nice_draws_every_subset_equally_often(n, m):
    counts = subsets(draws(t.Nice(m), t.Population(count=n)))
    all_subsets = [frozenset(c) for c in itertools.combinations(range(n), m)]
    if len(all_subsets) == 1:
        assert set(counts) == set(all_subsets)
    else:
        assert chance(counts, dict.fromkeys(all_subsets, 1 / len(all_subsets))) > ALARM


@pytest.mark.longer
def test_nice_gives_every_order_of_a_pair_equally_often():
    ids = np.asarray(draws(t.Nice(2), t.Population(count=5)).ids)
    pairs = Counter(map(tuple, ids.tolist()))
    expected = dict.fromkeys(itertools.permutations(range(5), 2), 1 / 20)
    assert chance(pairs, expected) > ALARM


@jax.jit
def permute_many(seeds, positions, sizes):
    return permute(jax.vmap(jax.random.key)(seeds), positions, sizes)


@pytest.mark.longer
@given(n=st.integers(1, 64) | st.integers(1, 2**31 - 1), seed=st.integers(0, 2**31 - 1))
def test_the_permutation_is_one(n, seed):
    """64 positions of one domain given 64 times over, wrapping around where it is smaller."""
    positions = jnp.arange(64, dtype="int32") % n
    image = np.asarray(permute_many(jnp.full(64, seed), positions, jnp.full(64, n, "int32")))
    assert len(set(image.tolist())) == min(n, 64)
    assert image.min() >= 0 and image.max() < n
    np.testing.assert_array_equal(image[: 64 - min(n, 64)], image[min(n, 64) :])


@pytest.mark.longer
def test_positions_with_domains_of_their_own_are_permuted_apart():
    """Each domain's positions come back as its own, and as they do alone."""
    sizes = np.repeat([1, 2, 5, 9, 16], [1, 2, 5, 9, 16])
    positions = np.concatenate([np.arange(n) for n in (1, 2, 5, 9, 16)])
    seeds = sizes + 100
    image = np.asarray(permute_many(seeds, positions, sizes))
    for n in (1, 2, 5, 9, 16):
        own = sizes == n
        np.testing.assert_array_equal(np.sort(image[own]), np.arange(n))
        np.testing.assert_array_equal(image[own], permute(jax.random.key(n + 100), jnp.arange(n), n))


@pytest.mark.tiers(quick=["1", "2", "3", "10", "1000"])
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
    """No array in the compiled draw is longer than a few numbers for each of a cohort of 100, so that the draw costs O(m)."""
    population = t.Population(count=n)
    for sampler in (t.Nice(100), t.ShuffledNice(100), t.Independent(size=20.0)):
        assert largest_in_draw(sampler, population) <= 200


@pytest.mark.parametrize("n", [10**4, 10**6])
def test_a_draw_of_strata_touches_only_its_own_places(n):
    """12 Feistel keys for each of 10 strata are the longest array, however many clients they hold."""
    population = t.Population(count=n, strata=np.arange(n) % 10)
    for sampler in (t.Stratified(), t.Stratified(size=5), t.ShuffledStratified()):
        assert largest_in_draw(sampler, population) <= 120


def largest_in_draw(sampler, population) -> int:
    bound = sampler.bind(population)
    state = bound.start(population)
    return largest_array(jax.make_jaxpr(lambda s, key: s.draw(state, key, population))(bound, jax.random.key(0)).jaxpr)


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


@pytest.mark.longer
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


@pytest.mark.tiers(longer=["0.5"])
@pytest.mark.parametrize("probability", [0.5, [0.5] * 10])
def test_clients_beyond_the_places_are_counted_as_lost(probability):
    cohorts = draws(t.Independent(probability=probability, capacity=3), t.Population(count=10), count=4000)
    size = np.asarray(cohorts.active).sum(axis=1)
    drawn = size + np.asarray(cohorts.lost)
    assert size.max() == 3
    expected = {k: float(stats.binom.pmf(k, 10, 0.5)) for k in range(11)}
    assert chance(Counter(drawn.tolist()), expected) > ALARM


@pytest.mark.longer
def test_a_run_with_lost_clients_is_an_error():
    with pytest.raises(t.UserError, match="did not fit into a cohort's places"):
        t.run(t.MbGd(t.Independent(size=6.0, capacity=2), lr=0.1), t.Quadratic.random(12, 3), rounds=20)


def test_places_are_kept_for_six_standard_deviations():
    assert t.Independent(size=100.0).bind(t.Population(count=10_000)).capacity == int(np.ceil(100 + 6 * np.sqrt(99)))


def test_nonuniform_draws_one_client():
    p = [0.1, 0.1, 0.1, 0.2, 0.2, 0.3]
    counts = subsets(draws(t.NonUniform(p), t.Population(count=6)))
    assert chance(counts, {frozenset([i]): p[i] for i in range(6)}) > ALARM


def test_stratified_takes_one_client_of_each_stratum():
    strata = np.array([0, 1, 1, 2, 2, 2])
    counts = subsets(draws(t.Stratified(), t.Population(count=6, strata=strata)))
    expected = {frozenset((0, j, k)): 1 / 6 for j in (1, 2) for k in (3, 4, 5)}
    assert chance(counts, expected) > ALARM


def test_strata_by_gradients_are_made_as_often_as_the_user_says():
    problem = t.Quadratic.random(6, 2)
    assert t.Stratified(by="gradients", clusters=3, every=2).fit(problem).every == 2
    assert t.Stratified(by="gradients", clusters=3).fit(problem).every is None


@pytest.mark.parametrize(
    ("sampler", "given"),
    [
        pytest.param(t.Subsets, ([[0, 1], [1, 2]], [0.25, 0.75]), id="subsets"),
        pytest.param(t.Block, ([0, 1, 1], [0.5, 0.5]), id="block"),
        pytest.param(t.Stratified, ([0, 1, 1], None, "split", None, None), id="stratified"),
        pytest.param(t.ShuffledStratified, ([0, 1, 1],), id="shuffled-stratified"),
    ],
)
def test_what_binding_sets_is_neither_given_by_position_nor_shown(sampler, given):
    """The arguments are all that may be given by position."""
    with pytest.raises(TypeError, match="positional argument"):
        sampler(*given, None)
    bound = sampler(*given).bind(t.Population(count=3))
    fields = ("members", "sizes", "inclusion", "order", "starts", "places", "largest")
    assert not any(f"{name}=" in repr(bound) for name in fields)


@pytest.mark.tiers(longer=["independent-uniform", "independent-unequal"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", DESIGNS)
def test_averages_are_unbiased_by_enumeration(name, weights):
    """sum over cohorts of P(S) average_S(r) = sum_i lambda_i r_i, with P(S) from the design itself."""
    population = six(weights)
    share = np.full(6, 1 / 6) if population.weights is None else population.weights
    replies = np.random.default_rng(0).normal(size=(6, 3))
    cohorts = enumerate_subsets(DESIGNS[name].bind(population), population)
    assert sum(chance for chance, _, _ in cohorts) == pytest.approx(1, abs=1e-12)
    mean = sum(chance * (weight @ replies[list(chosen)]) for chance, chosen, weight in cohorts)
    np.testing.assert_allclose(mean, share @ replies, rtol=1e-12, atol=1e-14)


@pytest.mark.tiers(
    longer=[
        "nice-1",
        "nice-3",
        "shuffled-nice",
        "nonuniform",
        "independent",
        "coins",
        "block",
        "block-part",
        "block-one",
        "block-uniform",
        "two-stage",
        "shuffled-stratified",
    ]
)
@pytest.mark.parametrize("name", DESIGNS)
def test_a_draw_in_a_program_is_the_one_outside(name):
    """Numbers of a sampler are arguments of the program of a run."""
    population = six("unequal")
    sampler, key = DESIGNS[name].bind(population), jax.random.key(3)
    state = sampler.start(population)
    one, other = (draw(sampler, state, key) for draw in (draw_of(population), jax.jit(draw_of(population))))
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6)


def draw_of(population):
    return lambda sampler, state, key: sampler.draw(state, key, population)


@pytest.mark.parametrize(("n", "size", "busy"), [(96, 1, 12), (100, 2, 3), (64, 40, 2), (7, 3, 4), (7, 3, 6)])
def test_nice_draws_the_first_clients_without_a_request_in_a_random_order(n, size, busy):
    requested = jnp.asarray(np.random.default_rng(n).permutation(n)[:busy], "int32")
    population = t.Population(count=n, in_flight=jnp.append(requested, jnp.full(2, n, "int32")))
    keys = jax.random.split(jax.random.key(0), 400)
    cohorts = jax.jit(jax.vmap(lambda key: t.Nice(size).draw(None, key, population)))(keys)
    orders = np.asarray(jax.jit(jax.vmap(lambda key: permute(key, jnp.arange(n), n)))(keys))
    for order, ids, active in zip(orders, np.asarray(cohorts.ids), np.asarray(cohorts.active), strict=True):
        idle = order[~np.isin(order, np.asarray(requested))][:size]
        assert ids[active].tolist() == idle.tolist()
    np.testing.assert_allclose(cohorts.probability[cohorts.active], min(1, size / (n - busy)))


@pytest.mark.tiers(quick=["nice-3", "stratified"], longer=["independent", "block", "block-part", "subsets"])
@pytest.mark.parametrize("name", DESIGNS)
def test_draws_follow_the_design_with_its_weights(name):
    """The cohorts really drawn have the law of the enumeration, and `Replies.average` weighs each as the enumeration does."""
    population = six("unequal")
    law = enumerate_subsets(DESIGNS[name].bind(population), population)
    drawn = draws(DESIGNS[name], population)
    expected = {frozenset(chosen): chance for chance, chosen, _ in law}
    counts = subsets(drawn)
    if len(expected) > 1:
        assert chance(counts, expected) > ALARM
    else:
        assert set(counts) == set(expected)
    weight = dict(sum(([*zip(chosen, weights, strict=True)] for _, chosen, weights in law), []))
    active = np.asarray(drawn.active)
    expected = np.vectorize(weight.get)(np.asarray(drawn.ids)[active])
    np.testing.assert_allclose(np.asarray(drawn.weight)[active], expected, rtol=1e-12)
    assert not np.any(drawn.lost)
    random = isinstance(DESIGNS[name], (t.Nice, t.ShuffledNice))
    assert drawn.selection == ("random" if random else "arbitrary")


@pytest.mark.parametrize(
    ("sampler", "kin"),
    [
        (t.Block(blocks=[0] * 6), t.Full()),
        (
            t.Block(blocks=list(range(6)), probability=[0.1, 0.1, 0.1, 0.2, 0.2, 0.3]),
            t.NonUniform([0.1, 0.1, 0.1, 0.2, 0.2, 0.3]),
        ),
        (t.Stratified(strata=[0] * 6), t.Nice(1)),
        (t.Stratified(strata=list(range(6))), t.Full()),
        (t.Stratified(strata=list(range(6)), size=4), t.Nice(4)),
        (t.Stratified(strata=[0, 1, 1, 2, 2, 2], size=3), t.Stratified(strata=[0, 1, 1, 2, 2, 2])),
        (t.ShuffledNice(6), t.Full()),
    ],
)
def test_extreme_cases_are_other_designs(sampler, kin):
    """Cohort Squeeze, appendix B.3."""
    population = six("unequal")
    laws = [
        {chosen: (chance, weights) for chance, chosen, weights in enumerate_subsets(one.bind(population), population)}
        for one in (sampler, kin)
    ]
    assert set(laws[0]) == set(laws[1])
    for chosen, (chance_of, weights) in laws[0].items():
        assert chance_of == pytest.approx(laws[1][chosen][0])
        np.testing.assert_allclose(weights, laws[1][chosen][1])


def sequence(sampler, population, count, seed):
    """Draw `count` cohorts one after the other, the state going from each to the next: ids [count, m]."""

    def one(state, key):
        cohort = sampler.draw(state, key, population)
        return sampler.advance(state, key), cohort.ids

    return lax.scan(one, sampler.start(population), jax.random.split(jax.random.key(seed), count))[1]


def many_sequences(sampler, population, count, seeds=4000):
    """`sequence` from each of many seeds: ids [seeds, count, m]."""
    sampler = sampler.bind(population)
    return np.asarray(jax.jit(jax.vmap(lambda seed: sequence(sampler, population, count, seed)))(jnp.arange(seeds)))


@pytest.mark.tiers(quick=["12-3"], longer=["5-1", "11-4"])
@pytest.mark.parametrize(("n", "m"), [(12, 3), (7, 7), (5, 1), (11, 4)])
def test_shuffled_cohorts_are_disjoint_over_an_epoch(n, m):
    """An epoch of floor(n / m) cohorts holds nobody twice, so that it holds everybody once where m divides n."""
    cohorts = n // m
    for ids in many_sequences(t.ShuffledNice(m), t.Population(count=n), 3 * cohorts, seeds=20):
        epochs = ids.reshape(3, cohorts * m)
        assert all(len(set(epoch)) == cohorts * m for epoch in epochs.tolist())
        assert n <= 5 or m == n or len(np.unique(epochs, axis=0)) > 1


@pytest.mark.longer
def test_shuffled_cohorts_are_equally_likely_in_every_epoch():
    """Four clients in pairs: the first cohorts of two epochs are independent, 6 x 6 pairs of pairs equally likely."""
    ids = many_sequences(t.ShuffledNice(2), t.Population(count=4), 4, seeds=20_000)
    firsts = Counter((frozenset(row[0]), frozenset(row[2])) for row in ids.tolist())
    pairs = [frozenset(pair) for pair in itertools.combinations(range(4), 2)]
    assert chance(firsts, dict.fromkeys(itertools.product(pairs, pairs), 1 / 36)) > ALARM


@pytest.mark.longer
def test_each_stratum_is_visited_once_an_epoch_of_its_own():
    strata = np.array([0, 1, 2, 1, 2, 2, 2, 1])
    ids = many_sequences(t.ShuffledStratified(), t.Population(count=8, strata=strata), 12, seeds=20)
    for j, size in enumerate((1, 3, 4)):
        epochs = np.sort(ids[:, :, j].reshape(20, 12 // size, size), axis=2)
        assert np.all(epochs == np.flatnonzero(strata == j))


@pytest.mark.longer
def test_strata_are_shuffled_independently_and_in_every_order():
    """Strata of 2 and 3 clients over 6 draws: the first order of one with the second of the other, 2 x 6 equally likely."""
    strata = np.array([0, 1, 1, 0, 1])
    ids = many_sequences(t.ShuffledStratified(), t.Population(count=5, strata=strata), 6, seeds=20_000)
    orders = Counter((tuple(row[:2, 0].tolist()), tuple(row[3:, 1].tolist())) for row in ids)
    expected = itertools.product(itertools.permutations((0, 3)), itertools.permutations((1, 2, 4)))
    assert chance(orders, dict.fromkeys(expected, 1 / 12)) > ALARM


@pytest.mark.slow
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
    assert (cohort.selection, cohort.ids.tolist(), cohort.expansion.tolist()) == ("delegate", [2], [1.0])
    assert t.Delegate().bind(t.Population(count=1)).client == 0
    with pytest.raises(t.UserError, match="no unbiased average"):
        replies.average()


def test_a_mean_weighs_those_who_answered_by_lambda():
    population = t.Population(count=3, weights=np.array([0.5, 0.3, 0.2]))
    cohort = t.Cohort.of([0, 1, 2], 1.0, population, selection="arbitrary")
    replies = t.Replies(jnp.array([1.0, jnp.nan, 6.0]), cohort, jnp.array([True, False, True]))
    assert replies.mean() == pytest.approx((0.5 * 1 + 0.2 * 6) / 0.7)
    assert t.Replies(replies.values, cohort, jnp.zeros(3, bool)).mean() == 0


def test_a_probability_that_is_no_number_is_refused():
    """Past the type checker of the tests, which would refuse it first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(t.UserError, match="Independent.probability must be a Probability"):
            t.Independent(probability="half")
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (lambda: t.Nice(13), "wants 13 clients, but there are 12"),
        (lambda: t.Nice(0), "must be at least 1"),
        (lambda: t.Full(size=20), "wants 20 clients"),
        (lambda: t.Independent(size=13.0), "wants 13"),
        (lambda: t.Independent(probability=1.5), "at most 1"),
        (lambda: t.Independent(probability=[0.5] * 11 + [0.0]), "greater than 0, but entry 11 is 0"),
        (lambda: t.Independent(probability=[0.5] * 3), "needs 1 or 12 probabilities"),
        (lambda: t.Independent(), "either probability or size"),
        (lambda: t.Stratified(), "needs strata"),
        (lambda: t.Stratified(strata=[0] * 11 + [2]), "stratum 1 has no clients"),
        (lambda: t.Stratified(strata=[1] * 12), "stratum 0 has no clients"),
        (lambda: t.Stratified(strata=[0] * 5), "needs 12 strata"),
        (lambda: t.Stratified(strata=[0] * 11 + [-1]), "numbered 0, 1, 2, ..., but one is -1"),
        (lambda: t.Stratified(strata=np.full(12, 0.5)), "numbered 0, 1, 2, ..., but one is 0.5"),
        (lambda: t.Stratified(strata=np.array(["a"] * 12)), "needs numbers as strata"),
        (lambda: t.Stratified(strata=[0] * 6 + [1] * 6, size=3), "clients of 3 strata, but there are 2: lower size"),
        (lambda: t.Stratified(by="rows"), "needs the number of clusters"),
        (lambda: t.Stratified(clusters=3), "takes no clusters"),
        (lambda: t.Stratified(by="rows", clusters=13), "wants 13 clusters of clients, but there are 12"),
        (lambda: t.Stratified(by="gradients", clusters=13), "wants 13 clusters of clients, but there are 12"),
        (lambda: t.Stratified(by="gradients", clusters=3, size=4), "clients of 4 strata, but there are 3"),
        (lambda: t.Stratified(by="rows", clusters=3, every=2), "leave every out"),
        (lambda: t.Stratified(strata=[0] * 12, by="rows", clusters=1), "leave one out"),
        (lambda: t.Stratified(by="labels", clusters=3), "need classes, which Quadratic does not have"),
        (lambda: t.ShuffledNice(13), "wants 13 clients"),
        (lambda: t.ShuffledStratified(), "'shuffled-stratified' needs strata"),
        (lambda: t.Block(), "needs blocks"),
        (lambda: t.Block(blocks=[0] * 11 + [2]), "block 1 has no clients"),
        (lambda: t.Block(blocks=[0] * 6 + [1] * 6, probability=[0.5, 0.6]), "sum to 1, but they sum to 1.1"),
        (lambda: t.Block(blocks=[0] * 6 + [1] * 6, probability=[1.0]), "needs 2 probabilities, one for each block, but got 1"),
        (lambda: t.NonUniform([0.1] * 12), "sum to 1, but they sum to 1.2"),
        (lambda: t.NonUniform([0.5, 0.5]), "needs 12 probabilities, one for each client"),
        (lambda: t.NonUniform([1.0] + [0.0] * 11), "greater than 0, but entry 1 is 0"),
        (lambda: t.NonUniform(np.full(12, np.nan)), "greater than 0, but entry 0 is nan"),
        (lambda: t.Subsets([[0, 1], list(range(11))], [0.5, 0.5]), "client 11 is in no subset"),
        (lambda: t.Subsets([list(range(12)), [5, 3, 3]], [0.5, 0.5]), "subset 1 names client 3 twice"),
        (lambda: t.Subsets([list(range(13))], [1.0]), "subset 0 names client 12, but they are 0 to 11"),
        (lambda: t.Subsets([[*range(12), 14]], [1.0]), "subset 0 names client 14, but they are 0 to 11"),
        (lambda: t.Subsets([list(range(12))], [0.5, 0.5]), "needs 1 probabilities, one for each subset, but got 2"),
        (lambda: t.Subsets([], []), "sum to 1, but they sum to 0"),
        (lambda: t.Delegate(client=12), "'delegate' names client 12, but they are 0 to 11"),
        (lambda: t.Delegate(client=20), "'delegate' names client 20, but they are 0 to 11"),
    ],
)
def test_a_sampler_that_does_not_fit_says_so(sampler, words):
    with pytest.raises(t.UserError, match=words):
        t.run(t.MbGd(sampler(), lr=0.1), t.Quadratic.random(12, 3), rounds=1)
