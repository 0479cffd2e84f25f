"""Draw designs: the cohorts drawn have the law of the words that define each design, sums are unbiased, sizes are exact."""

import itertools
from collections import Counter, defaultdict
from dataclasses import fields, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import linalg, stats

import turnout as t
from tests.helpers.examples import logistic
from tests.samplers.test_samplers import ALARM, chance, draws
from turnout.samplers.cube import TRIALS
from turnout.samplers.draw_by_draw import one_draw_variance
from turnout.samplers.fixed_size import in_random_order
from turnout.samplers.pivotal import pivotal_selection
from turnout.samplers.probabilities.waterfilling import capped
from turnout.theory import designs

TWO = np.array([0.2, 0.5, 0.7, 0.35, 0.25])
THREE = np.array([0.3, 1.0, 0.45, 0.75, 0.5])
VARIABLE = np.array([1.0, -2.0, 0.5, 3.0, 1.5])
VECTORS = np.random.default_rng(1).normal(size=(5, 2))
FIVE = t.Population(count=5)


def over_orders(law_in_order):
    """The law over cohorts of a design that takes the clients in random order."""

    def law(p):
        result = defaultdict(float)
        orders = list(itertools.permutations(range(len(p))))
        for order in orders:
            for share, chosen in law_in_order(p, order):
                result[frozenset(chosen)] += share / len(orders)
        return {chosen: share for chosen, share in result.items() if share > 1e-12}

    return law


def systematic(p, order):
    """The cohort is the same for all starts u between two breakpoints."""
    ends = np.cumsum(p[list(order)])
    breaks = np.unique(np.round(np.concatenate([[0, 1], ends % 1]), 12))
    for low, high in itertools.pairwise(breaks):
        points = (low + high) / 2 + np.arange(round(p.sum()))
        yield high - low, [order[k] for k in np.searchsorted(ends, points)]


def pivotal(p, order, chosen=()):
    """Follow every outcome of every duel; `order` starts with the client that is undecided."""
    i, *rest = order
    if not rest:
        yield 1, (*chosen, i) if p[i] > 0.5 else chosen
        return
    j, *rest = rest
    total = p[i] + p[j]
    for winner, loser in ((i, j), (j, i)):
        if total < 1 - 1e-9:
            share, next_p, won = p[winner] / total, {winner: total}, chosen
            going = winner
        else:
            share = (1 - p[loser]) / (2 - total) if total < 2 - 1e-9 else 0.5
            next_p, won, going = {loser: total - 1}, (*chosen, winner), loser
        following = {**dict(enumerate(p)), **next_p} if isinstance(p, np.ndarray) else {**p, **next_p}
        if share > 1e-12:
            yield from ((share * each, result) for each, result in pivotal(following, (going, *rest), won))


def cube(p, order):
    """Follow both ends of every move of the first undecided clients, here on the size and one variable."""
    z = np.stack([np.ones(len(p)), VARIABLE / p])

    def fly(now):
        free = [i for i in order if 1e-9 < now[i] < 1 - 1e-9][:3]
        if not free:
            yield 1, np.flatnonzero(now > 0.5)
            return
        columns = z[: min(2, len(free) - 1), free]
        v = np.zeros(len(now))
        v[free] = linalg.null_space(columns)[:, 0]
        ends = []
        for sign in (1, -1):
            with np.errstate(divide="ignore", invalid="ignore"):
                steps = np.where(sign * v > 1e-12, (1 - now) / (sign * v), np.where(sign * v < -1e-12, -now / (sign * v), np.inf))
            ends.append(sign * steps.min())
        up, down = ends[0], -ends[1]
        for share, step in ((down / (up + down), up), (up / (up + down), -down)):
            yield from ((share * each, result) for each, result in fly(now + step * v))

    yield from fly(p)


LAWS = {"systematic": over_orders(systematic), "pivotal": over_orders(pivotal), "cube": over_orders(cube)}


def fixed(name: str, size: int, p=None):
    """The design `name` with exact inclusion probabilities."""
    if name == "cube":
        return t.Cube(p, size=size, balance=VARIABLE[:, None])
    return {"systematic": t.Systematic, "pivotal": t.Pivotal}[name](p, size=size)


@pytest.mark.tiers(quick=[], longer=["systematic-three", "pivotal-three"])
@pytest.mark.parametrize("p", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", LAWS)
def test_cohorts_of_fixed_size_follow_the_design(name, p):
    """Its law, written out, has the inclusion probabilities asked for, and is that of the cohorts drawn."""
    size, law = round(p.sum()), LAWS[name](p)
    assert sum(law.values()) == pytest.approx(1)
    assert all(len(chosen) == size for chosen in law)
    inclusion = [sum(share for chosen, share in law.items() if i in chosen) for i in range(5)]
    np.testing.assert_allclose(inclusion, p, atol=1e-9)
    drawn = draws(fixed(name, size, p), FIVE, count=20_000)
    assert np.all(drawn.active)
    assert chance(Counter(map(frozenset, np.asarray(drawn.ids).tolist())), law) > ALARM
    np.testing.assert_allclose(drawn.expansion, 1 / p[np.asarray(drawn.ids)], rtol=1e-12)


@pytest.mark.longer
def test_a_systematic_selection_has_k_clients_for_every_start():
    """The sum of p_i is K up to rounding, which is exaggerated here: p is scaled to that sum."""
    keys, factors = jax.random.split(jax.random.key(0), 1000), np.repeat([0.9, 1.1], 500)
    select = jax.jit(jax.vmap(lambda key, factor: fixed("systematic", 2).select(key, factor * TWO, FIVE)))
    np.testing.assert_array_equal(np.sum(select(keys, factors), axis=1), 2)


@pytest.mark.longer
def test_a_systematic_selection_with_an_expected_size_that_is_not_whole():
    """Its cohorts have two or three clients, and each client has its p_i."""
    p = np.array([0.2, 0.9, 0.4, 0.3, 0.7])
    drawn = draws(t.Systematic(p, size=2.5), FIVE, count=40_000)
    sizes, active = np.sum(drawn.active, axis=1), np.asarray(drawn.active)
    assert {*sizes.tolist()} == {2, 3} and chance(Counter(sizes.tolist()), {2: 0.5, 3: 0.5}) > ALARM
    ids = np.asarray(drawn.ids)[active]
    # Four standard deviations.
    np.testing.assert_allclose(np.bincount(ids, minlength=5) / 40_000, p, atol=4 * 0.5 / 200)
    np.testing.assert_allclose(np.asarray(drawn.expansion)[active], 1 / p[ids], rtol=1e-12)


def test_a_systematic_sample_has_the_places_that_it_is_given_or_as_many_as_it_needs():
    p = np.array([0.2, 0.9, 0.4, 0.3, 0.7])
    assert t.Systematic(p, size=2.5).bind(FIVE).places == 3
    assert t.Systematic(p, size=2.5, capacity=4).bind(FIVE).places == 4


@pytest.mark.parametrize("p", [[0.0, 0.5], [0.25, 0.25], [0.25, 0.75], [1.0, 0.5], [0.75, 0.75]])
def test_a_pivotal_duel_is_exact_for_evenly_spaced_coins(p):
    """Over the coins 0, 1/4, 1/2 and 3/4 the mean is p, and a client with p_i = 0 never wins, even by the coin 0."""
    coins = jnp.arange(4) / 4
    results = jax.vmap(lambda coin: pivotal_selection(jnp.asarray(p), jnp.stack([0 * coin, coin])))(coins)
    np.testing.assert_allclose(np.mean(np.asarray(results), axis=0), p, atol=1e-15)


def test_a_systematic_order_is_random_with_clients_that_never_come_at_its_end():
    p = jnp.asarray([0.0, 0.5, 1.0, 0.0, 0.5])
    orders = np.asarray(jax.vmap(lambda key: in_random_order(key, p))(jax.random.split(jax.random.key(0), 200)))
    assert set(map(tuple, orders[:, :3].tolist())) == set(itertools.permutations((1, 2, 4)))
    assert np.all(np.sort(orders[:, 3:]) == [0, 3])


def ordered(q, size):
    """Every ordered cohort of Des Raj's design: its chance, its clients, what each counts."""
    for chosen in itertools.permutations(range(len(q)), size):
        before = np.cumsum([0, *q[list(chosen)]])[:-1]
        ratio = (1 - before) / q[list(chosen)]
        counts = (size - 1 - np.arange(size) + ratio) / size if size < len(q) else np.ones(size)
        yield np.prod(1 / ratio), chosen, counts


def moments(law, vectors):
    """The mean of sum_{i in S} counts_i v_i, and E|it - sum_i v_i|^2."""
    law = [(share, counts @ vectors[list(chosen)]) for share, chosen, counts in law]
    mean = sum(share * each for share, each in law)
    return mean, sum(share * np.sum((each - vectors.sum(0)) ** 2) for share, each in law)


Q = np.array([0.1, 0.3, 0.15, 0.25, 0.2])


@pytest.mark.tiers(quick=["2", "5"], longer=["1"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_des_raj_follows_its_design_and_is_unbiased(size):
    law, sampler = list(ordered(Q, size)), t.DesRaj(Q, size=size).bind(FIVE)
    np.testing.assert_allclose(moments(law, VECTORS)[0], VECTORS.sum(0), atol=1e-12)
    drawn = draws(sampler, FIVE)
    ids = list(map(tuple, np.asarray(drawn.ids).tolist()))
    assert chance(Counter(ids), {chosen: share for share, chosen, _ in law}) > ALARM
    counts = {chosen: counts for _, chosen, counts in law}
    np.testing.assert_allclose(drawn.expansion[:500], [counts[each] for each in ids[:500]], rtol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_des_rajs_variance_estimate_is_unbiased(size):
    law, sampler = list(ordered(Q, size)), t.DesRaj(Q, size=size).bind(FIVE)
    ids = jnp.array([chosen for _, chosen, _ in law])
    everyone = jnp.ones(size, bool)

    def estimate(ids):
        cohort = t.Cohort.of(ids, 1.0, FIVE, selection="arbitrary", active=everyone)
        return sampler.estimate(None, cohort, jnp.asarray(VECTORS)[ids], FIVE)

    mean = np.array([share for share, *_ in law]) @ np.asarray(jax.jit(jax.vmap(estimate))(ids))
    assert mean == pytest.approx(moments(law, VECTORS)[1], abs=1e-12)


@pytest.mark.tiers(quick=[], longer=["5", "2"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_des_rajs_approximations_are_near_enumeration(size):
    """Exact for one draw and for everyone; between them within a tenth, even for five clients."""
    law, sampler = list(ordered(Q, size)), t.DesRaj(Q, size=size).bind(FIVE)
    exact = moments(law, VECTORS)[1]
    exactly = size in (1, 5)
    assert sampler.variance(None, FIVE, jnp.asarray(VECTORS)) == pytest.approx(exact, rel=1e-9 if exactly else 0.1, abs=1e-12)
    p = np.array([sum(share for share, chosen, _ in law if i in chosen) for i in range(5)])
    result = sampler.expected_draws(None, FIVE)
    assert np.sum(result) == pytest.approx(size, rel=1e-12)
    np.testing.assert_allclose(result, p, atol=1e-12 if size == 5 else 0.03)


def with_replacement(q, size):
    """Every sequence of draws: its chance, its distinct clients, what each counts."""
    for sequence in itertools.product(range(len(q)), repeat=size):
        times = np.bincount(sequence, minlength=len(q))
        chosen = tuple(np.flatnonzero(times).tolist())
        yield np.prod(q[list(sequence)]), chosen, (times / (size * q))[list(chosen)]


@pytest.mark.tiers(quick=[], longer=["3"])
@pytest.mark.parametrize("size", [1, 3])
def test_draws_with_replacement_merge_into_places(size):
    law, sampler = list(with_replacement(Q, size)), t.WithReplacement(Q, size=size).bind(FIVE)
    mean, exact = moments(law, VECTORS)
    np.testing.assert_allclose(mean, VECTORS.sum(0), atol=1e-12)
    assert sampler.variance(None, FIVE, jnp.asarray(VECTORS)) == pytest.approx(exact, rel=1e-12)
    np.testing.assert_allclose(sampler.expected_draws(None, FIVE), size * Q)
    shares = defaultdict(float)
    for share, chosen, counts in law:
        shares[chosen, tuple(np.round(counts, 9))] += share
    drawn = draws(sampler, FIVE)
    rows = zip(*map(np.asarray, (drawn.ids, drawn.expansion, drawn.active)), strict=True)
    result = Counter((tuple(ids[on].tolist()), tuple(np.round(counts[on], 9))) for ids, counts, on in rows)
    assert chance(result, shares) > ALARM
    assert np.all(np.asarray(drawn.expansion)[~np.asarray(drawn.active)] == 0)


def test_theory_knows_draws_with_replacement():
    """mu_AS, sigma^2_AS and P(i in S) of K draws with replacement, by enumeration; other designs end with a sentence."""
    population = t.Population(count=5, weights=np.array([0.3, 0.1, 0.1, 0.2, 0.3]))
    law, sampler = list(with_replacement(Q, 3)), t.WithReplacement(Q, size=3).bind(population)
    lambdas = np.asarray(population.weights)
    weighted, mu = lambdas[:, None] * VECTORS, lambdas * np.arange(1, 6)
    second = sum(share * np.sum((counts @ weighted[list(chosen)]) ** 2) for share, chosen, counts in law)
    assert designs.variance(sampler, population, VECTORS) == pytest.approx(second, rel=1e-12)
    least = min(counts @ mu[list(chosen)] for _, chosen, counts in law)
    assert designs.convexity(sampler, population, np.arange(1.0, 6.0)) == pytest.approx(least, rel=1e-12)
    p = [sum(share for share, chosen, _ in law if i in chosen) for i in range(5)]
    np.testing.assert_allclose(designs.inclusion(sampler, population), p, rtol=1e-12)
    with pytest.raises(t.UserError, match="no theory here is about cohorts of Pivotal"):
        designs.inclusion(t.Pivotal(TWO, size=2).bind(FIVE), FIVE)
    with pytest.raises(t.UserError, match="samplers with changing probabilities"):
        designs.inclusion(t.WithReplacement(t.KVib(), size=2).bind(FIVE), FIVE)


N, K = 200, 20
STRATA = np.arange(N) % 4
MANY = t.Population(count=N, strata=STRATA)
GENERATOR = np.random.default_rng(5)
TWELVE_CLIENTS = t.Population(count=12)
UNEQUAL = np.asarray(capped(jnp.asarray(0.1 + GENERATOR.exponential(size=N) ** 2), jnp.asarray(float(K))))
REPLIES = (1 + GENERATOR.normal(size=(N, 3))) * np.sqrt(UNEQUAL)[:, None]
LARGE = {
    "replacement": t.WithReplacement(UNEQUAL / K, size=K),
    "des-raj": t.DesRaj(UNEQUAL / K, size=K),
    "systematic": t.Systematic(UNEQUAL, size=K),
    "pivotal": t.Pivotal(UNEQUAL, size=K),
    "cube": t.Cube(UNEQUAL, size=K, balance=GENERATOR.normal(size=(N, 2))),
    "nice": t.Nice(K),
}


@pytest.mark.tiers(quick=[], longer=["nice"], slow=["des-raj", "cube"])
@pytest.mark.parametrize("name", LARGE)
def test_large_draws_have_the_law_that_is_promised(name):
    """Of 200 clients: exact size, inclusion (chi-square), unbiased sums, and the variance, which may be approximate."""
    count, sampler = 2000, LARGE[name].bind(MANY)
    drawn = draws(sampler, MANY, count=count)
    ids, active, expansion = (np.asarray(leaf) for leaf in (drawn.ids, drawn.active, drawn.expansion))
    assert name == "replacement" or np.all(active)
    p = np.asarray(sampler.expected_draws(None, MANY))
    assert p.sum() == pytest.approx(K, rel=1e-12)
    p = 1 - (1 - UNEQUAL / K) ** K if name == "replacement" else p
    heads = np.bincount(ids[active], minlength=N)
    random = p < 1
    assert np.all(heads[~random] == count)
    pulls = (heads - count * p)[random] ** 2 / (count * p * (1 - p))[random]
    assert name == "des-raj" or stats.chi2.sf(pulls.sum(), pulls.size - 1) > ALARM
    errors = np.einsum("sm,smd->sd", np.where(active, expansion, 0), REPLIES[ids]) - REPLIES.sum(0)
    z = errors.mean(0) / (errors.std(0) / np.sqrt(count))
    assert stats.chi2.sf(np.sum(z**2), 3) > ALARM
    assert sampler.variance(None, MANY, jnp.asarray(REPLIES)) == pytest.approx(np.mean(np.sum(errors**2, axis=1)), rel=0.12)


@pytest.mark.tiers(longer=["systematic", "pivotal"])
@pytest.mark.parametrize("name", ["systematic", "pivotal", "nice"])
def test_variance_is_exact_for_equal_probabilities(name):
    """(n - K) n / (K (n - 1)) sum_i |v_i - mean|^2, that of simple random sampling."""
    sampler = t.Nice(2) if name == "nice" else fixed(name, 2)
    sampler = sampler.bind(FIVE)
    exact = 3 * 5 / (2 * 4) * np.sum((VECTORS - VECTORS.mean(0)) ** 2)
    assert sampler.variance(sampler.start(FIVE), FIVE, jnp.asarray(VECTORS)) == pytest.approx(exact, rel=1e-12)


@pytest.mark.tiers(quick=[], longer=["three"])
@pytest.mark.parametrize("p", [TWO, THREE], ids=["two", "three"])
def test_the_variance_of_a_cube_is_that_of_its_enumerated_law(p):
    """Within 5 standard errors of an estimate from `TRIALS` draws."""
    law, expanded = LAWS["cube"](p), VECTORS / p[:, None]
    chances = np.array(list(law.values()))
    errors2 = np.array([np.sum((expanded[list(chosen)].sum(axis=0) - VECTORS.sum(axis=0)) ** 2) for chosen in law])
    exact = chances @ errors2
    error = np.sqrt((chances @ errors2**2 - exact**2) / TRIALS)
    sampler = fixed("cube", round(p.sum()), p).bind(FIVE)
    assert 0 < error < 0.06 * exact
    assert abs(sampler.variance(None, FIVE, jnp.asarray(VECTORS)) - exact) < 5 * error


@pytest.mark.slow
def test_the_variance_of_a_cube_with_few_clients_left_is_not_too_small():
    """Two columns and the size leave little freedom to 4 of 12: formulas for large cohorts give a quarter of what draws show."""
    balance, count = np.random.default_rng(0).normal(size=(12, 2)), 4000
    sampler, vectors = t.Cube(size=4, balance=balance).bind(TWELVE_CLIENTS), balance @ np.array([[1.0], [2.0]])
    ids = np.asarray(draws(sampler, TWELVE_CLIENTS, count=count).ids)
    errors2 = (3 * vectors[ids].sum(axis=(1, 2)) - vectors.sum()) ** 2
    error = errors2.std() * (1 / count + 1 / TRIALS) ** 0.5
    assert abs(sampler.variance(None, TWELVE_CLIENTS, jnp.asarray(vectors)) - errors2.mean()) < 5 * error < 0.5 * errors2.mean()


@jax.jit
def draw_and_judge(sampler, key, population):
    """A cohort, the expected number of times that each client is drawn, and the variance of a sum of ones."""
    ones = jnp.ones((population.count, 1))
    cohort = sampler.draw(None, jax.random.key(key), population)
    return cohort, sampler.expected_draws(None, population), sampler.variance(None, population, ones)


TWELVE = {
    "replacement": t.WithReplacement(size=4),
    "des-raj": t.DesRaj(size=4),
    "systematic": t.Systematic(size=4),
    "pivotal": t.Pivotal(size=4),
    "cube": t.Cube(size=4, balance=np.random.default_rng(0).normal(size=(12, 2))),
    "nice": t.Nice(4),
    "full": t.Full(),
}


@pytest.mark.tiers(quick=[], longer=["replacement", "nice"], slow=["cube", "des-raj"])
@pytest.mark.parametrize("name", TWELVE)
@settings(max_examples=50)
@given(
    scores=st.lists(st.floats(1e-30, 1e30), min_size=12, max_size=12),
    on=st.lists(st.booleans(), min_size=12, max_size=12),
    key=st.integers(0, 2**31 - 1),
)
@example(scores=[1.0] * 12, on=[False] * 11 + [True], key=0)
def test_any_probabilities_and_any_mask(name, scores, on, key):
    """The size is exact, who is certain or the only one comes, who is away does not, and nothing is NaN."""
    population = t.Population(count=12, available=jnp.array(on), presence=np.ones(12))
    sampler = TWELVE[name].bind(t.Population(count=12))
    draws_one_by_one = name in ("replacement", "des-raj")
    if hasattr(sampler, "probability"):
        p = capped(jnp.asarray(scores), jnp.asarray(4.0))
        sampler = replace(sampler, probability=np.asarray(p / jnp.sum(p) if draws_one_by_one else p))
    cohort, p, variance = draw_and_judge(sampler, key, population)
    p = np.asarray(p)
    ids, active = np.asarray(cohort.ids), np.asarray(cohort.active)
    present = np.sum(p > 0)
    assert np.all((ids >= 0) & (ids < 12))
    assert len(set(ids[active])) == active.sum() and np.all(np.array(on)[ids[active]])
    assert np.all(np.isfinite(cohort.expansion)) and np.all(np.isfinite(p)) and np.all(p[~np.array(on)] == 0)
    assert np.isfinite(variance)
    if name == "replacement":
        assert 0 < active.sum() <= 4 or not any(on)
        assert p.sum() == pytest.approx(4 * any(on))
        return
    assert active.sum() == (present if name == "full" else min(4, present))
    assert set(np.flatnonzero(p >= 1)) <= set(ids[active]) or name == "des-raj"
    assert p.sum() == pytest.approx(present if name == "full" else min(4, present), rel=1e-9)
    if present <= 4:
        np.testing.assert_array_equal(cohort.expansion[active], 1)
    if name != "des-raj":
        np.testing.assert_allclose(cohort.expansion[active], 1 / p[ids[active]], rtol=1e-12)


@pytest.mark.longer
def test_given_probabilities_are_scaled_to_those_available():
    """p ~ the numbers given, capped, with the same sum: three of five clients, two of them drawn."""
    population = t.Population(count=5, available=jnp.array([True, False, True, True, False]), presence=np.ones(5))
    p = t.Pivotal(TWO, size=2).bind(FIVE).expected_draws(None, population)
    np.testing.assert_allclose(p, [4 / 11, 0, 1, 7 / 11, 0])
    q = t.DesRaj(Q, size=2).bind(FIVE).draw_probabilities(None, population)
    np.testing.assert_allclose(q, np.array([0.1, 0, 0.15, 0.25, 0]) / 0.5)


@pytest.mark.tiers(longer=["Pivotal"])
@pytest.mark.parametrize("design", [t.Systematic, t.Pivotal])
def test_all_of_the_few_that_are_available_are_drawn(design):
    population = t.Population(count=6, available=jnp.arange(6) % 3 == 1)
    cohort = design(size=4).bind(t.Population(count=6)).draw(None, jax.random.key(0), population)
    assert sorted(cohort.ids[cohort.active].tolist()) == [1, 4]
    np.testing.assert_array_equal(cohort.expansion, 1)


@pytest.mark.tiers(quick=[], longer=["DesRaj"])
@pytest.mark.parametrize("design", [t.WithReplacement, t.DesRaj])
def test_clients_that_are_away_add_nothing_to_the_variance(design):
    """It is that of a population of the others, whose probabilities are scaled."""
    on = np.array([True, False, True, True, False])
    some = t.Population(count=5, available=jnp.asarray(on), presence=np.ones(5))
    alone = design(Q[on] / Q[on].sum(), size=2).bind(t.Population(count=3))
    exact = float(alone.variance(None, t.Population(count=3), jnp.asarray(VECTORS[on])))
    assert design(Q, size=2).bind(FIVE).variance(None, some, jnp.asarray(VECTORS)) == pytest.approx(exact, rel=1e-12)


@t.record
class Turns(t.Algorithm):
    """Minibatch gradient descent with one cohort of each design a round, one after the other."""

    replacement: t.Sampler
    desraj: t.Sampler
    systematic: t.Sampler
    pivotal: t.Sampler
    cube: t.Sampler

    def round(self, ask, x):
        for field in fields(self):
            replies = ask(getattr(self, field.name), self.gradient, x)
            ask.observe(replies)
            x = x - 0.02 * replies.average()
        return x

    @t.on_client
    def gradient(self, client, x):
        return t.Done(client.grad(x))


@pytest.mark.tiers(quick=[], slow=["k-vib"])
@pytest.mark.parametrize("rule", [t.KVib(), t.BySize()], ids=["k-vib", "size"])
def test_engines_agree(rule):
    """Every design with the same rule."""
    ruled = [replace(TWELVE[name], probability=rule) for name in ("replacement", "des-raj", "systematic", "pivotal")]
    algorithm = Turns(*ruled, t.Cube(rule, size=4, balance="size"))
    runs = [t.run(algorithm, logistic(), rounds=3, engine=engine) for engine in ("compiled", "nodes")]
    np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-13)
    assert runs[0].ledger.rows() == runs[1].ledger.rows()


@pytest.mark.slow
def test_sampling_is_judged_in_a_run():
    sampler = t.Available(t.Cube(t.KVib(), size=4, balance="size"), 0.5)
    run = t.run(t.MbGd(sampler, lr=0.02), logistic(), rounds=3, metrics=("variance", "regret"))
    assert np.all(run.frame["variance"].to_numpy()[1:] > 0) and np.all(run.frame["regret"].to_numpy()[1:] >= 0)


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (lambda: t.Systematic(size=13), "'systematic' wants 13 clients, but there are 12"),
        (lambda: t.Pivotal(size=0), "must be at least 1"),
        (lambda: t.Pivotal(np.full(12, 0.3), size=3), "sum to size = 3, not to 3.6"),
        (lambda: t.Pivotal(np.full(11, 0.3), size=3), "'pivotal' needs 12 probabilities"),
        (lambda: t.WithReplacement(np.full(12, 0.3), size=3), "'replacement' needs probabilities that sum to 1"),
        (lambda: t.DesRaj(np.full(3, 1 / 3), size=3), "'des-raj' needs 12 probabilities"),
        (lambda: t.Cube(size=3), "'cube' needs strata"),
        (lambda: t.Cube(size=3, balance="norms"), "'strata', 'size' or an array, not on 'norms'"),
        (lambda: t.Cube(size=3, balance=np.ones(12)), "12 rows, one for each client, but its shape is"),
        (lambda: t.Cube(size=3, balance=np.full((12, 1), np.nan)), "needs finite numbers as balance"),
    ],
)
def test_a_design_that_does_not_fit_says_so(sampler, words):
    with pytest.raises(t.UserError, match=words):
        t.run(t.MbGd(sampler(), lr=0.1), t.Quadratic.random(12, 3), rounds=1)


@pytest.mark.longer
def test_a_cube_on_sizes_and_a_variance_from_one_client_say_so():
    with pytest.raises(t.UserError, match="which only a problem knows"):
        t.Cube(size=3, balance="size").bind(t.Population(count=12))
    sampler = t.DesRaj(Q, size=1).bind(FIVE)
    with pytest.raises(t.UserError, match="raise size"):
        sampler.estimate(None, sampler.draw(None, jax.random.key(0), FIVE), jnp.ones((1, 2)), FIVE)


def test_a_client_that_is_never_drawn_has_no_part_in_the_variance_of_a_draw():
    """The variance of r v_i / q_i, by enumeration of the client drawn; one client is drawn already, and one has q_i = 0."""
    q, left = np.array([0.2, 0.0, 0.5, 0.3]), np.array([1.0, 1.0, 1.0, 0.0])
    vectors = np.random.default_rng(2).normal(size=(4, 2))
    chances = q * left / (q * left).sum()
    values = {i: (q * left).sum() * vectors[i] / q[i] for i in np.flatnonzero(chances)}
    mean = sum(chances[i] * value for i, value in values.items())
    expected = sum(chances[i] * np.sum((value - mean) ** 2) for i, value in values.items())
    variance = one_draw_variance(jnp.asarray(q), jnp.asarray(left), jnp.asarray(vectors))
    assert float(variance) == pytest.approx(expected, rel=1e-12)


def test_everyone_may_be_one_client():
    population = t.Population(count=1)
    assert t.Full().bind(population).draw(None, jax.random.key(0), population).ids.tolist() == [0]
