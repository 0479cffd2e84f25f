"""Clustered sampling: its law by enumeration, against draws with replacement, and what its urns hold."""

import itertools
from collections import Counter, defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.examples import quadratic
from tests.helpers.federations import ENGINES
from tests.helpers.gradients import client_gradient
from tests.samplers.test_samplers import ALARM, chance
from tests.samplers.test_samplers_runs import play
from turnout.samplers.clustered import Urns
from turnout.samplers.urns import urns_by_similarity, urns_by_weight

SHARES = np.array([0.1, 0.45, 0.15, 0.1, 0.2])
FIVE = t.Population(count=5, weights=SHARES)
VECTORS = np.random.default_rng(1).normal(size=(5, 2))
DIRECTIONS = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.1], [-1.0, 0.0], [-3.0, 0.1]])
MAKERS = {
    "size": lambda shares, size, vectors: urns_by_weight(shares, size),
    "gradients": lambda shares, size, vectors: urns_by_similarity(shares, vectors, size),
}


def table(segments, n: int, m: int) -> np.ndarray:
    """W [m, n]."""
    ids, ends = (np.asarray(part) for part in segments)
    urns = np.zeros((m, n))
    np.add.at(urns, (np.minimum(np.ceil(ends).astype(int) - 1, m - 1), ids), np.diff(ends, prepend=0))
    return urns


def law(urns, shares):
    """Every sequence of draws: its chance, and what each client counts [n]."""
    m, n = urns.shape
    for sequence in itertools.product(range(n), repeat=m):
        if share := np.prod(urns[range(m), sequence]):
            yield share, np.bincount(sequence, minlength=n) / (m * shares)


def moments(urns, shares):
    """What each client counts in expectation, the variance for `VECTORS`, and the expected number of different clients."""
    shares_of, counts = (np.array(part) for part in zip(*law(urns, shares), strict=True))
    errors = counts @ VECTORS - VECTORS.sum(0)
    return shares_of @ counts, shares_of @ np.sum(errors**2, axis=1), shares_of @ np.sum(counts > 0, axis=1)


@pytest.mark.tiers(quick=["3-gradients"], longer=["2-size"])
@pytest.mark.parametrize("by", MAKERS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_clients_count_once_and_vary_less_than_with_replacement(by, size):
    """By enumeration of both laws: no bias, no larger variance, and no fewer different clients (Fraboni et al., section 3)."""
    segments = MAKERS[by](SHARES, size, DIRECTIONS)
    urns, multinomial = table(segments, 5, size), np.tile(SHARES, (size, 1))
    np.testing.assert_allclose(urns.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(urns.sum(0), size * SHARES, rtol=1e-12)
    mean, variance, different = moments(urns, SHARES)
    np.testing.assert_allclose(mean, 1, rtol=1e-12)
    _, larger, fewer = moments(multinomial, SHARES)
    assert size == 1 or (variance < larger and different > fewer)
    assert np.all(1 - np.prod(1 - urns, axis=0) >= 1 - (1 - SHARES) ** size - 1e-12)
    state = Urns(*map(jnp.asarray, segments))
    assert t.Clustered(size).bind(FIVE).variance(state, FIVE, jnp.asarray(VECTORS)) == pytest.approx(variance, rel=1e-9)


@pytest.mark.tiers(quick=[], longer=["3"])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_cohorts_have_the_law_of_the_urns(size):
    sampler = t.Clustered(size).bind(FIVE)
    state = sampler.start(FIVE)
    expected = defaultdict(float)
    for share, counts in law(table(state, 5, size), SHARES):
        expected[tuple(np.round(counts, 9))] += share
    drawn = jax.jit(jax.vmap(lambda key: sampler.draw(state, key, FIVE)))(jax.random.split(jax.random.key(0), 20_000))
    counts = np.zeros((20_000, 5))
    np.add.at(counts, (np.arange(20_000)[:, None], drawn.ids), np.where(drawn.active, drawn.expansion, 0))
    seen = Counter(map(tuple, np.round(counts, 9).tolist()))
    assert set(seen) <= set(expected) and (len(expected) == 1 or chance(seen, expected) > ALARM)
    np.testing.assert_allclose(sampler.expected_draws(state, FIVE), size * SHARES, rtol=1e-12)


def test_equal_weights_make_strata():
    """Six clients in three urns: two clients in each, half an urn each."""
    urns = table(urns_by_weight(np.full(6, 1 / 6), 3), 6, 3)
    np.testing.assert_allclose(urns, np.repeat(np.eye(3), 2, axis=1) / 2, atol=1e-12)


def test_clients_that_are_alike_share_an_urn():
    """Two directions of three clients each, in any order and of any length."""
    vectors = np.array([[1.0, 0.1], [0.0, 9.0], [5.0, 0.0], [0.1, 1.0], [2.0, -0.1], [0.0, 0.3]])
    urns = table(urns_by_similarity(np.full(6, 1 / 6), vectors, 2), 6, 2)
    together = {frozenset(np.flatnonzero(urn).tolist()) for urn in urns}
    assert together == {frozenset({0, 2, 4}), frozenset({1, 3, 5})}


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), st.integers(0, 999))
def test_urns_are_full_and_empty_every_client(shape, seed):
    """Whatever the weights and vectors: zero, equal or very unequal ones, and a client with nearly all weight."""
    (n, m), generator = shape, np.random.default_rng(seed)
    weights = generator.integers(0, 4, n) * 10.0 ** generator.integers(0, 6, n)
    weights[0] += 1
    vectors = generator.integers(-1, 2, (n, 2)) * 1.0
    for make in MAKERS.values():
        segments = make(weights / weights.sum(), m, vectors)
        urns = table(segments, n, m)
        np.testing.assert_allclose(urns.sum(1), 1, atol=1e-7)
        np.testing.assert_allclose(urns.sum(0), m * weights / weights.sum(), atol=1e-7)
        assert segments[0].shape == segments[1].shape == (n + m - 1,)
        assert np.all(np.diff(segments[1]) >= 0)
        assert np.all(weights[segments[0]] > 0)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_urns_by_gradients_are_those_of_the_gradients_at_the_parameters(engine):
    """All clients are asked before rounds 1 and 3, and charged; the urns in the end are those of round 3."""
    problem = quadratic()
    sampler = t.Clustered(4, by="gradients", every=2)
    sessions = [play(sampler, problem, rounds, engine=engine) for rounds in (2, 3)]
    x, state = sessions[0].trace.x, sessions[1].progress.samplers[0]
    vectors = np.array([client_gradient(problem, i, x) for i in range(12)])
    shares = np.asarray(problem.population.shares)
    expected = table(urns_by_similarity(shares, vectors, 4), 12, 4)
    np.testing.assert_allclose(table(state, 12, 4), expected, atol=1e-12)
    asked = [row for row in sessions[1].trace.ledger.rows() if row["contacts"] == 24]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.Clustered(2, every=3), "leave every out"),
        (lambda: t.Clustered(6).bind(FIVE), "wants 6 clients, but there are 5"),
    ],
)
def test_what_does_not_fit_is_one_sentence(make, words):
    with pytest.raises(t.UserError, match=words):
        make()
