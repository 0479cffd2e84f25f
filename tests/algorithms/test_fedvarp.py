"""Control variates, and the probabilities made for them."""

import itertools
from itertools import product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.examples import logistic
from tests.helpers.gradients import client_gradient
from turnout.algorithms.fedvarp import FedVarpState
from turnout.core.seeds import Seeds
from turnout.runs.session import Session

CHANCES = np.array([0.2, 0.5, 0.9, 0.35])
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
MEMORIES = pytest.mark.parametrize("memory", ["server", "clients"])


@t.record
class These(t.Sampler):
    """The clients `chosen`, as if drawn by independent coins with probabilities `chances`."""

    chosen: np.ndarray
    chances: np.ndarray

    def draw(self, state, key, population):
        ids, chosen = jnp.arange(population.count), jnp.asarray(self.chosen)
        return t.Cohort.of(ids, self.chances, population, selection="arbitrary", active=chosen)


def quadratic() -> t.Problem:
    made = t.Quadratic.random(4, 3, seed=5)
    return t.Quadratic.of(*made.rows, weights=SHARES)


def update(problem, i, x, lr, steps):
    """g_i = y_i - x."""
    y = x.copy()
    for _ in range(steps):
        y = y - lr * client_gradient(problem, i, y)
    return y - x


def play_from(algorithm, problem, x, variates, **options) -> Session:
    """Play one round that begins at x with the control variates h [n, d]."""
    session = Session(algorithm, problem, seeds=Seeds.of(0), rounds=1, **options)
    progress, mean = session.progress, jnp.asarray(SHARES @ variates)
    if algorithm.memory == "server":
        progress = progress._replace(server=FedVarpState(jnp.asarray(x), mean, jnp.asarray(variates)))
    else:
        progress = progress._replace(server=progress.server._replace(x=jnp.asarray(x), mean=mean), clients=jnp.asarray(variates))
    session.progress = progress
    for _ in session.play():
        pass
    return session


@pytest.mark.tiers(quick=[], longer=["clients"])
@MEMORIES
def test_the_step_is_unbiased_whatever_is_remembered_and_its_variance_is_that_of_the_residuals(memory):
    """Over all 16 cohorts: E x+ = x + sum lambda_i g_i, and E|x+ - E x+|^2 = sum (1/p_i - 1) lambda_i^2 |g_i - h_i|^2."""
    problem, generator = quadratic(), np.random.default_rng(0)
    x, variates = generator.normal(size=3), generator.normal(size=(4, 3))
    updates = np.array([update(problem, i, x, 0.05, 2) for i in range(4)])
    first, second = np.zeros(3), 0.0
    for chosen in itertools.product((False, True), repeat=4):
        sampler = These(np.array(chosen), CHANCES)
        new = play_from(t.FedVarp(sampler, lr=0.05, steps=2, memory=memory), problem, x, variates).trace.x
        chance = np.prod(np.where(chosen, CHANCES, 1 - CHANCES))
        first, second = first + chance * new, second + chance * np.sum((new - x - SHARES @ updates) ** 2)
    variance = np.sum((1 / CHANCES - 1) * SHARES**2 * np.sum((updates - variates) ** 2, axis=1))
    np.testing.assert_allclose(first, x + SHARES @ updates, atol=1e-13)
    np.testing.assert_allclose(second, variance, rtol=1e-12)
    coins = t.FedVarp(t.Independent(probability=CHANCES, capacity=4), lr=0.05, steps=2, memory=memory)
    judged = play_from(coins, problem, x, variates, metrics=("value", "variance")).trace
    np.testing.assert_allclose(judged.columns["variance"][1], variance, rtol=1e-12)


@pytest.mark.tiers(quick=[], longer=["drift"])
@pytest.mark.parametrize(("memory", "rule"), [("server", t.Uniform()), ("clients", t.Drift())], ids=["uniform", "drift"])
def test_variance_vanishes_and_the_error_falls_linearly_where_local_descent_stalls(memory, rule):
    """Quadratics with one local step: at x* every g_i = -lr grad f_i(x*) is remembered, and nothing is left to chance."""
    problem, options = t.Quadratic.random(12, 5, seed=1), {"rounds": 300, "every": 30, "metrics": ("distance", "variance")}
    sampler = t.Independent(size=4.0, probability=rule)
    trace = t.run(t.FedVarp(sampler, lr=0.05, steps=1, memory=memory), problem, **options)
    error, variance = trace.columns["distance"], trace.columns["variance"][1:]
    assert np.all(error[1:] < np.maximum(0.1 * error[:-1], 1e-26))
    assert variance[-1] < 1e-25 < 1e-6 < variance[0]
    stalled = t.run(t.MbLocalGd(sampler, lr=0.05, steps=1), problem, **options)
    assert np.all(stalled.columns["distance"] > 1e-5)


@pytest.mark.tiers(quick=[], slow=["server-None"])
@pytest.mark.parametrize(("memory", "missing"), [*product(["server", "clients"], [None, "skip"])])
def test_the_servers_mean_is_that_of_what_is_remembered(memory, missing):
    """H = sum_i lambda_i h_i after every round, h_i being the last update of i that the server used."""
    problem, faults = logistic(), missing and t.Faults(0.4, missing)
    algorithm = t.FedVarp(t.Independent(size=5.0), lr=0.05, steps=2, memory=memory)
    session = Session(algorithm, problem, seeds=Seeds.of(3), rounds=12, faults=faults)
    chunks = session.play()
    while session.round < 12:
        next(chunks)
        server = session.progress.server
        variates = np.asarray(server.variates if memory == "server" else session.progress.clients)
        np.testing.assert_allclose(server.mean, problem.population.weights @ variates, atol=1e-15)
    assert np.any(variates)


@pytest.mark.tiers(quick=[], slow=["nodes-skip"])
@pytest.mark.parametrize(
    ("engine", "missing"), [pytest.param("compiled", "skip", marks=pytest.mark.slow), ("nodes", "skip"), ("compiled", "repeat")]
)
def test_who_remembers_changes_nothing(engine, missing):
    faults, metrics = missing and t.Faults(0.4, missing), ("value", "variance", "regret")
    options = {"rounds": 8, "engine": engine, "faults": faults, "metrics": metrics}
    sampler = t.Independent(size=5.0, probability=t.Drift())
    one, other = (
        t.run(t.FedVarp(sampler, lr=0.05, steps=2, memory=memory), logistic(), **options) for memory in ("server", "clients")
    )
    np.testing.assert_allclose(one.x, other.x, rtol=1e-12)
    for name in ("variance", "regret"):
        np.testing.assert_allclose(one.columns[name], other.columns[name], rtol=1e-9, atol=1e-14)
    np.testing.assert_array_equal(one.columns["counts"], other.columns["counts"])


def capped(scores, size):
    """p_i = min(1, s a_i) with sum p = K, by bisection on log s."""
    low, high = np.log(size / scores.sum()), np.log(size / scores.min())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(1, np.exp(middle) * scores).sum() < size else (low, middle)
    return np.minimum(1, np.exp(high) * scores)


def fedvarp_with_drift(problem, size, rounds, seed, lr, steps, mixing=0.05):
    """The algorithm and the rule as their docstrings say them, client by client; the coins are the sampler's."""
    n, shares = problem.clients, problem.population.weights / problem.population.weights.sum()
    x, variates, path, laws = np.zeros(5), np.zeros((n, 5)), [], []
    seen: list[list[int]] = [[] for _ in range(n)]
    slopes, slope, fresh, step = {}, None, None, 0.0
    for number in range(1, rounds + 1):
        path.append(x)
        moved = [np.sum((b - a) ** 2) for a, b in itertools.pairwise(path)]
        if moved:
            step = 0.9 * step + 0.1 * moved[-1] if step > 0 else moved[-1]
        distance = [np.sqrt(sum(moved[visits[-1] :]) + 0.3 * step) if visits else None for visits in seen]
        scores = np.zeros(n)
        for i, visits in enumerate(seen):
            scores[i] = shares[i] * (slopes.get(i, slope) * distance[i] if visits and slope else fresh or 1.0)
        p = capped((1 - mixing) * scores + mixing * scores.mean(), size)
        laws.append(p)
        drawn = np.flatnonzero(np.asarray(jax.random.uniform(Seeds.of(seed).draw(number, 0), (n,), np.float64)) < p)
        updates = {i: update(problem, i, x, lr, steps) for i in drawn}
        norms = {i: np.linalg.norm(updates[i] - variates[i]) for i in drawn}
        again, first = [i for i in drawn if seen[i]], [i for i in drawn if not seen[i]]
        if again:
            logs = {i: np.log(norms[i] / distance[i]) for i in again}
            mean = np.mean(list(logs.values()))
            slope = np.exp(mean if slope is None else 0.9 * np.log(slope) + 0.1 * mean)
            slopes |= {i: np.exp((np.log(slopes[i]) + logs[i]) / 2 if i in slopes else logs[i]) for i in again}
        if first:
            mean = np.mean([np.log(norms[i]) for i in first])
            fresh = np.exp(mean if fresh is None else 0.9 * np.log(fresh) + 0.1 * mean)
        change = shares @ variates + sum((shares[i] / p[i] * (updates[i] - variates[i]) for i in drawn), np.zeros(5))
        x = x + change
        for i in drawn:
            variates[i] = updates[i]
            seen[i].append(number - 1)
    return x, np.array(laws)


@pytest.mark.tiers(longer=["1"], everything=["0"])
@pytest.mark.parametrize("seed", [0, 1])
def test_twenty_rounds_are_their_numpy_program(seed):
    problem = logistic()
    algorithm = t.FedVarp(t.Independent(size=4.0, probability=t.Drift(), capacity=12), lr=0.3, steps=2)
    x, laws = fedvarp_with_drift(problem, 4.0, 20, seed, 0.3, 2)
    np.testing.assert_allclose(t.run(algorithm, problem, rounds=20, seed=seed).x, x, rtol=1e-9)
    assert np.all(laws >= 0.05 * 4 / 12) and np.ptp(laws[-1] / laws[0]) > 0.1


@pytest.mark.longer
def test_drift_knows_no_scale():
    """Clients' optima a thousand times further away: the same cohorts, and everything a thousand times as long."""
    problem = t.Quadratic.random(10, 4, seed=2)
    far = t.Quadratic.of(problem.rows[0], 1000 * problem.rows[1])
    algorithm = t.FedVarp(t.Independent(size=3.0, probability=t.Drift()), lr=0.05, steps=2)
    one, other = (t.run(algorithm, problem, rounds=25) for problem in (problem, far))
    np.testing.assert_allclose(1000 * one.x, other.x, rtol=1e-8)
    np.testing.assert_array_equal(one.columns["counts"], other.columns["counts"])


LENGTHS = st.one_of(st.just(0.0), st.floats(1e-60, 1e60))


SIX = t.Population(count=6, weights=np.array([0.3, 0.1, 0.1, 0.2, 0.25, 0.05]))


@jax.jit
def heard(state, round, length, norms, start, size):
    """Return the state and the law of `Drift` after the model moved by `length` and three clients told these norms."""
    rule = t.Drift(dimension=2)
    state = rule.refresh(state, SimpleNamespace(round=round), state.x + length * jnp.array([0.6, 0.8]))
    cohort = t.Cohort.of(start + jnp.arange(3), 0.5, SIX, selection="arbitrary")
    state = rule.observe(state, cohort, cohort.share * norms, size)
    return state, rule.inclusion_probabilities(state, size, SIX)


@pytest.mark.longer
@given(st.lists(st.tuples(LENGTHS, st.lists(LENGTHS, min_size=3, max_size=3), st.integers(0, 3)), max_size=8), st.floats(0.5, 6))
def test_drift_has_probabilities_whatever_it_hears(story, size):
    """p_i in (0, 1] with sum K and at least mixing K / n, after any moves of the model and any norms."""
    state = t.Drift(dimension=2).start(SIX)
    for round, (length, norms, start) in enumerate(story, 1):
        state, p = heard(state, round, length, np.array(norms), start, size)
        assert np.all((p >= 0.05 * size / 6 * (1 - 1e-9)) & (p <= 1))
        np.testing.assert_allclose(np.sum(p), size, rtol=1e-9)


def test_drift_wants_to_be_fitted():
    with pytest.raises(t.UserError, match="fit it to a problem"):
        t.Independent(size=2.0, probability=t.Drift()).bind(t.Population(count=6))
