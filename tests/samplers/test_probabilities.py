"""Rules for probabilities: every rule against a program of its own, and what theory promises."""

import itertools
import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import turnout as t
from tests.samplers.test_waterfilling import bisection
from turnout.core.cohort import Cohort

RULES = {
    "k-vib": t.KVib(),
    "vrb": t.Vrb(),
    "mabs": t.Mabs(),
    "avare": t.Avare(),
    "osmd": t.Osmd(),
    "a-osmd": t.AOsmd(),
    "last-norm": t.LastNorm(),
}
ROUNDS = 20


def rule(name: str, rounds=ROUNDS):
    return RULES[name].for_rounds(rounds)


N, PLACES, SIZE = 6, 4, 2.5
WEIGHTS = np.array([0.3, 0.1, 0.1, 0.2, 0.25, 0.05])


@cache
def played(name: str):
    """A compiled round with any feedback: the state, p of coins and q among those available, then what is learnt from some."""
    population = t.Population(count=N, weights=WEIGHTS)

    def play(state, ids, active, feedback, mask):
        among = t.Population(count=N, weights=WEIGHTS, available=mask, presence=jnp.full(N, 0.5))
        p, q = (f(state, SIZE, among) for f in (rule(name).inclusion_probabilities, rule(name).draw_probabilities))
        everyone = rule(name).inclusion_probabilities(state, SIZE, population)
        cohort = Cohort.of(ids, everyone[ids], population, selection="arbitrary", active=active)
        return rule(name).observe(state, cohort, feedback, SIZE), p, q, everyone

    return jax.jit(play)


FEEDBACK = st.just(0.0) | st.floats(-100, 100).map(lambda e: 10**e)
ROUND = st.tuples(
    st.permutations(range(N)).map(lambda ids: np.array(ids[:PLACES], "int32")),
    st.lists(st.booleans(), min_size=PLACES, max_size=PLACES).map(np.array),
    st.lists(FEEDBACK, min_size=PLACES, max_size=PLACES).map(np.array),
    st.lists(st.booleans(), min_size=N, max_size=N).map(np.array),
)


@pytest.mark.tiers(quick=[], longer=["k-vib", "vrb"])
@pytest.mark.parametrize("name", RULES)
@settings(max_examples=60)
@given(rounds=st.lists(ROUND, min_size=1, max_size=6))
def test_whatever_is_learnt_the_probabilities_are_some(name, rounds):
    state = rule(name).start(t.Population(count=N))
    for ids, active, feedback, mask in rounds:
        state, p, q, everyone = played(name)(state, ids, active, feedback, mask)
        p, q, everyone = np.asarray(p), np.asarray(q), np.asarray(everyone)
        assert np.all((p >= 0) & (p <= 1)) and not p[~mask].any() and not q[~mask].any()
        assert abs(p.sum() - min(SIZE, mask.sum())) < 1e-12 and abs(q.sum() - mask.any()) < 1e-12
        assert np.all((everyone > 0) & (everyone <= 1)) and np.all(q[mask] > 0)


@pytest.mark.tiers(quick=["k-vib", "vrb", "avare"])
@pytest.mark.parametrize("name", RULES)
def test_an_empty_cohort_teaches_nothing(name):
    population = t.Population(count=N)
    cohort = Cohort.of(jnp.arange(3), 0.5, population, selection="arbitrary")
    state = rule(name).observe(rule(name).start(population), cohort, jnp.array([1.0, 3.0, 2.0]), 2)
    empty = Cohort.of(jnp.arange(3), 0.5, population, selection="arbitrary", active=jnp.zeros(3, bool))
    after = rule(name).observe(state, empty, jnp.array([5.0, 5.0, 5.0]), 2)
    # Only the time goes on.
    clock = [] if name != "avare" else [1]
    changed = [np.max(np.abs(np.asarray(a) - np.asarray(b)), initial=0) for a, b in zip(after, state, strict=True)]
    np.testing.assert_allclose([change for change in changed if change > 1e-12], clock)


# Every rule once more, written on its own: a generator that is sent the clients drawn, K of them with repetitions or those
# with heads, and all pi, and yields the probabilities q or, for coins, p.


def first(drawn, values):
    """The mean over the clients drawn, each once; None as long as nobody is."""
    return np.mean(values[sorted(set(drawn))]) if len(drawn) else None


def coins(a, size, floor=0.0):
    return bisection(np.array([a]), np.array([size]), floor)[0]


def leader(n, theta, gamma, probabilities):
    omega, g = np.zeros(n), None
    while True:
        a = np.sqrt(omega + gamma(1 if g is None else g))
        p = (1 - theta) * probabilities(a) + theta * probabilities(np.ones(n))
        drawn, pi = yield p
        for i in drawn:
            omega[i] += pi[i] ** 2 / p[i]
        g = first(drawn, pi) if g is None else g


def kvib(n, k):
    theta = min(1, (n / (ROUNDS * k)) ** (1 / 3))
    return leader(n, theta, lambda g: g**2 * n / (k * theta), lambda a: coins(a, k))


def vrb(n, k):
    theta = (n / ROUNDS) ** (1 / 3)
    return leader(n, theta, lambda g: g**2 * n / theta, lambda a: a / a.sum())


def mabs(n, k, eta=0.4):
    w, delta = np.ones(n), None
    while True:
        q = (1 - eta) * w / w.sum() + eta / n
        drawn, pi = yield q
        if delta is None:
            abar = first(drawn, pi**4)
            delta = np.sqrt(eta**4 * np.log(n) / (ROUNDS * n**5 * abar))
        for i in drawn:
            w[i] *= np.exp(delta * pi[i] ** 2 / q[i] ** 3)


def avare(n, k, with_replacement=True):
    last, g, least = np.full(n, np.nan), None, 1 / (5 * n)
    for time in itertools.count(1):
        a = np.where(np.isnan(last), 1 if g is None else g, last)
        floor = least + 1 / (1 / (1 / n - least) * time)
        drawn, pi = yield coins(a, 1, floor) if with_replacement else coins(a, k, k * floor)
        g = first(drawn, pi) if g is None else g
        last[drawn] = pi[drawn]


def projection(y, floor):
    """The KL projection by its conditions: those that would fall below the floor are put on it, one after the other."""
    low = np.zeros(len(y), bool)
    while True:
        q = np.where(low, floor, y * (1 - floor * low.sum()) / y[~low].sum())
        if np.all(q >= floor * (1 - 1e-15)):
            return q
        low |= q < floor


def gradient(q, played, drawn, pi, k):
    """-d/dq of sum a_i / (K^2 q_i played_i) over the draws."""
    slope = np.zeros(len(q))
    for i in drawn:
        slope[i] += pi[i] ** 2 / (k**2 * q[i] ** 2 * played[i])
    return slope


def osmd(n, k, alpha=0.4):
    q, eta = np.full(n, 1 / n), None
    while True:
        drawn, pi = yield q
        if eta is None:
            abar = first(drawn, pi**2)
            eta = k**2 * alpha**3 / (n**3 * abar) * np.sqrt(np.log(n) / (2 * ROUNDS))
        q = projection(q * np.exp(eta * gradient(q, q, drawn, pi, k)), alpha / n)


def aosmd(n, k, alpha=0.4):
    experts = math.ceil(0.5 * math.log2((math.log(n) + 4 * (ROUNDS - 1) * math.log(n / alpha)) / math.log(n))) + 1
    e = np.arange(1, experts + 1)
    w, q, abar = (1 + 1 / experts) / (e * (e + 1)), np.full((experts, n), 1 / n), None
    assert abs(w.sum() - 1) < 1e-14
    while True:
        played = w @ q
        drawn, pi = yield played
        abar = first(drawn, pi**2) if abar is None else abar
        losses = np.array([sum(pi[i] ** 2 / (k**2 * own[i] * played[i]) for i in drawn) for own in q])
        w = w * np.exp(-alpha / (n * abar) * np.sqrt(8 * k / ROUNDS) * losses)
        w = w / w.sum()
        eta = 2.0 ** (e - 1) * k**2 * alpha**3 / (n**3 * abar) * np.sqrt(np.log(n) / (2 * ROUNDS))
        moves = [s * gradient(own, played, drawn, pi, k) for own, s in zip(q, eta, strict=True)]
        q = np.array([projection(own * np.exp(move - move.max()), alpha / n) for own, move in zip(q, moves, strict=True)])


def last_norm(n, k, theta=0.05):
    norms, g0 = np.full(n, np.nan), None
    while True:
        a = LAMBDA * np.where(np.isnan(norms), 1 if g0 is None else g0, norms)
        p = coins(a + theta / (1 - theta) * a.mean(), k)
        drawn, pi = yield p
        now, share = pi[drawn] / LAMBDA[drawn], LAMBDA[drawn] / p[drawn]
        norms[drawn] = now
        if len(drawn):
            g0 = now.mean() if g0 is None else 0.9 * g0 + 0.1 * now @ share / share.sum()


LAMBDA = np.array([0.3, 0.05, 0.1, 0.15, 0.2, 0.08, 0.12])
REFERENCES = {
    "k-vib": (kvib, False),
    "vrb": (vrb, True),
    "mabs": (mabs, True),
    "avare": (avare, True),
    "avare coins": (partial(avare, with_replacement=False), False),
    "osmd": (osmd, True),
    "a-osmd": (aosmd, True),
    "last-norm": (last_norm, False),
}


@cache
def followed(name: str, size: int, repeated: bool):
    """A compiled round: what is learnt from clients drawn so many `times`, and the probabilities after it."""
    own, population = rule(name), t.Population(count=len(LAMBDA), weights=LAMBDA)

    def probabilities(state):
        return (
            own.draw_probabilities(state, size, population) if repeated else own.inclusion_probabilities(state, size, population)
        )

    def play(state, ids, times, feedback):
        mean = probabilities(state)[ids] * (size if repeated else 1)
        cohort = Cohort.of(ids, mean, population, selection="arbitrary", active=times > 0, expansion=times / mean)
        state = own.observe(state, cohort, feedback, size)
        return state, probabilities(state)

    start = own.start(population)
    return start, probabilities(start), jax.jit(play)


@pytest.mark.tiers(longer=["k-vib-0", "k-vib-1", "avare-0", "a-osmd-0", "last-norm-0"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", REFERENCES)
def test_a_rule_follows_its_reference(name, seed):
    n, k, rng, (reference, repeated) = len(LAMBDA), 3, np.random.default_rng(seed), REFERENCES[name]
    state, ours, play = followed(name.split()[0], k, repeated)
    other = reference(n, k)
    expected = next(other)
    for _ in range(ROUNDS):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)
        pi = LAMBDA * rng.lognormal(0, 1, n) * np.linspace(0.2, 3, n)
        drawn = rng.choice(n, k, p=expected / expected.sum()) if repeated else np.flatnonzero(rng.random(n) < expected)
        # Each client has one place; those left empty name any client.
        ids = np.append(np.unique(drawn), np.zeros(n - len(set(drawn)), int))
        times = np.where(np.arange(n) < len(set(drawn)), np.bincount(drawn, minlength=n)[ids], 0)
        state, ours = play(state, ids, times.astype(float), pi[ids])
        expected = other.send((drawn, pi))
    assert np.ptp(expected) > 0.005


@pytest.mark.tiers(quick=[], longer=["last-norm", "mabs"])
@pytest.mark.parametrize("name", RULES)
def test_the_estimator_is_unbiased_after_some_learning(name):
    """The weights of real draws, summed over all outcomes of the coins."""
    population = t.Population(count=N, weights=WEIGHTS)
    sampler = t.Independent(size=SIZE, probability=RULES[name]).bind(population).for_rounds(ROUNDS)
    draw, observe = jax.jit(lambda state, key: sampler.draw(state, key, population)), jax.jit(sampler.observe)
    norms, state, weight = jnp.array([0.1, 5.0, 0.0, 30.0, 1.0, 2.0]), sampler.start(population), np.full(N, np.nan)
    for key in jax.random.split(jax.random.key(3), 10):
        cohort = draw(state, key)
        state = observe(state, cohort, norms[cohort.ids])
    p = np.asarray(sampler.expected_draws(state, population))
    assert np.ptp(p) > 0.05
    for key in jax.random.split(jax.random.key(4), 300):
        cohort = draw(state, key)
        weight[np.asarray(cohort.ids)[np.asarray(cohort.active)]] = np.asarray(cohort.weight)[np.asarray(cohort.active)]
    replies, mean = np.random.default_rng(0).normal(size=(N, 2)), np.zeros(2)
    for heads in itertools.product((0, 1), repeat=N):
        heads = np.array(heads)
        mean += np.prod(np.where(heads, p, 1 - p)) * ((heads * weight) @ replies)
    np.testing.assert_allclose(mean, WEIGHTS @ replies, rtol=1e-12)


@partial(jax.jit, static_argnames=("rule_", "rounds", "size", "repeated"))
def losses(rule_, feedback, keys, *, rounds, size, repeated=False):
    """l_t(p_t) for each key and round of coins, or of K draws with replacement, given feedback(t) = pi_t."""
    population = t.Population(count=feedback.shape[1])

    def play(state, now):
        pi, key = now
        n = population.count
        if repeated:
            p = size * rule_.draw_probabilities(state, size, population)
            times = jnp.sum(jax.random.choice(key, n, (size,), p=p / size)[:, None] == jnp.arange(n)[None], axis=0)
        else:
            p = rule_.inclusion_probabilities(state, size, population)
            times = (jax.random.uniform(key, (n,)) < p).astype(int)
        cohort = Cohort.of(
            jnp.arange(n), p, population, selection="arbitrary", active=times > 0, expansion=times.astype(p.dtype) / p
        )
        return rule_.observe(state, cohort, pi, size), jnp.sum(pi**2 / p)

    def run(key):
        return lax.scan(play, rule_.start(population), (feedback, jax.random.split(key, rounds)))

    return jax.vmap(run)(keys)


def slowly_varying(n: int, rounds: int):
    """pi_t(i) = pi_*(i) (1 + O(1 / sqrt t)) with norms over two orders of magnitude."""
    rng, time = np.random.default_rng(0), np.arange(1, rounds + 1)[:, None]
    return 10 ** rng.uniform(-2, 0, n) * (1 + 0.5 * np.sin(np.arange(n)) / np.sqrt(time))


def static_regret(rounds: int, n=40, size=5):
    feedback = slowly_varying(n, rounds)
    g = feedback.max()
    _, lost = losses(
        t.KVib(bound=g, rounds=rounds), jnp.asarray(feedback), jax.random.split(jax.random.key(1), 8), rounds=rounds, size=size
    )
    norms = np.sqrt((feedback**2).sum(0))
    best = coins(norms, size)
    return feedback, np.asarray(lost).sum(1) - np.sum(norms**2 / best)


@pytest.mark.slow
def test_the_regret_of_kvib_grows_slower_than_time():
    shorter, longer = (static_regret(rounds)[1].mean() for rounds in (1000, 4000))
    assert 0 < longer < 3.2 * shorter


@pytest.mark.longer
@pytest.mark.parametrize("rounds", [100, 1000])
def test_the_regret_of_kvib_is_within_theorem_52(rounds, n=40, size=5):
    """The bound with its constants, appendix D.3, in the form for feedback that includes the clients' weights; z <= K."""
    feedback, regret = static_regret(rounds)
    g, theta = feedback.max(), (n / (rounds * size)) ** (1 / 3)
    norms = np.sqrt((feedback**2).sum(0)).sum()
    first = theta * g**2 * n**2 / size * rounds
    second = (22 + 2 * math.sqrt(6)) * n**1.5 * g / (size * math.sqrt(theta * size)) * norms
    assert np.all(regret <= first + second + 22 * g**2 * n**2 / (theta * size**2))


@pytest.mark.slow
def test_aosmd_picks_a_good_step(n=20, size=4, rounds=400):
    """Of Osmd's steps the largest suits norms that stay as they are; A-OSMD comes to do as well, and trusts large steps."""
    feedback = jnp.asarray(np.tile(np.where(np.arange(n) < 3, 10.0, 1.0), (rounds, 1)))
    play = partial(losses, feedback=feedback, keys=jax.random.key(2)[None], rounds=rounds, size=size, repeated=True)
    adaptive = t.AOsmd(bound=10.0, rounds=rounds)
    experts = adaptive.expert_count(n)
    small, large = (float(play(t.Osmd(factor=2.0**e, bound=10.0, rounds=rounds))[1][0, -100:].sum()) for e in (0, experts - 1))
    state, lost = play(adaptive)
    assert large < 0.7 * small
    assert float(lost[0, -100:].sum()) <= 1.02 * large
    assert int(jnp.argmax(state.log_weights[0])) >= experts - 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.KVib(mixing=1.5), "KVib.mixing must be at most 1, but it is 1.5"),
        (lambda: t.Vrb(mixing=-0.1), "Vrb.mixing must be at least 0"),
        (lambda: t.Mabs(mixing=2.0), "Mabs.mixing must be at most 1"),
        (lambda: t.LastNorm(mixing=1.01), "LastNorm.mixing must be at most 1"),
        (lambda: t.Avare(bound=0.0), "Avare.bound must be greater than 0"),
        (lambda: t.Osmd(floor=0.0), "Osmd.floor must be greater than 0"),
        (lambda: t.AOsmd(floor=1.5), "AOsmd.floor must be at most 1"),
        (lambda: t.Independent(size=7, probability=t.KVib()).bind(t.Population(count=6)), "wants 7.* clients, but there are 6"),
        (lambda: t.Independent(size=2, probability=[0.5] * 6).bind(t.Population(count=6)), "sum to size = 2, "),
        (lambda: t.Independent(probability=t.KVib()), "needs the size that its probabilities are to sum to"),
        *(
            (
                partial(lambda one: one.draw_probabilities(one.start(t.Population(count=6)), 2, t.Population(count=6)), one),
                "needs the number of rounds",
            )
            for one in (t.KVib(), t.Vrb(), t.AOsmd())
        ),
    ],
)
def test_a_mistake_is_one_sentence(make, words):
    with pytest.raises(t.UserError, match=words) as error:
        make()
    assert "\n" not in str(error.value)
