"""Gradient estimators: each against a textbook program of its own, along a run that finds the optimum or a known floor."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from turnout.core.seeds import Seeds
from turnout.problems.optimum import Optimum
from turnout.runs.session import Session

CLIENTS, SIZE, ROUNDS = 7, 3, 250
SHARES = np.array([3.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0]) / 10
PASS = -(-CLIENTS // SIZE)
BETA, CHANCE, LAM = 0.3, 0.4, 2.0
FIRST = np.array([3.0, -1.0, 2.0])
ALL = list(itertools.combinations(range(CLIENTS), SIZE))


@t.record
class Similar(t.Quadratic):
    """Clients whose Hessians differ little, begun off the origin."""

    def start(self, key):
        return jnp.asarray(FIRST, jnp.result_type(float))


@cache
def problem() -> t.Problem:
    made = t.Quadratic.random(CLIENTS, 3, 1.0, 4.0, seed=2)
    matrices, vectors = np.array(made.rows[0]), np.array(made.rows[1])
    return Similar.of(0.7 * matrices.mean(0) + 0.3 * matrices, vectors, weights=SHARES)


def gradients(x) -> np.ndarray:
    """grad f_i(x) [n, d]."""
    return problem().rows[0] @ x - problem().rows[1]


@cache
def optimum() -> Optimum:
    matrix, vector = (np.tensordot(SHARES, part, 1) for part in problem().rows)
    x = np.linalg.solve(matrix, vector)
    return Optimum(x, -vector @ x / 2)


@cache
def cohorts(draw) -> np.ndarray:
    """The clients [rounds + 1, m] of the `draw`-th draw of each round, were it a random one."""
    return np.asarray(_cohorts(jnp.arange(ROUNDS + 1), draw))


@jax.jit
def _cohorts(numbers, draw):
    return jax.vmap(lambda number: t.Nice(SIZE).draw(None, Seeds.of(0).draw(number, draw), t.Population(CLIENTS)).ids)(numbers)


@cache
def coins() -> np.ndarray:
    """Each round's coin, tossed after the delegate was asked."""
    keys = jax.vmap(lambda number: jax.random.fold_in(Seeds.of(0).exchange(number, 1), CLIENTS))
    tossed = jax.jit(lambda numbers: jax.vmap(lambda key: jax.random.bernoulli(key, CHANCE))(keys(numbers)))
    return np.asarray(tossed(jnp.arange(ROUNDS + 1)))


@dataclass
class Asked:
    """Whom a textbook asks in round k, and how often it did; the first draw of every round from k = 1 on is the delegate's."""

    passes: int = 0
    first: int = 0
    later: int = 0
    within: dict = field(default_factory=dict)

    def everyone(self, k):
        """All clients and their weights, by a full pass."""
        self.passes += 1
        self.within[k] = self.within.get(k, 0) + 1
        return np.arange(CLIENTS), SHARES

    def coin(self, k):
        return coins()[k]

    def some(self, k):
        """A cohort and its weights, the first one in x^0 alone."""
        self.first, self.later = self.first + (k == 0), self.later + (k > 0)
        ids = cohorts(self.within.get(k, 0) + (k > 0))[k]
        return ids, SHARES[ids] * CLIENTS / SIZE


def mean(asked, vectors) -> np.ndarray:
    ids, weights = asked
    return weights @ vectors[ids]


def saga(ask, x, passes, biased=False):
    b = np.zeros((CLIENTS, 3))
    for k in itertools.count():
        asked, fresh = ask.everyone(k) if k < passes else ask.some(k), gradients(x)
        estimate = mean(asked, fresh - b) + SHARES @ b
        b[asked[0]] = fresh[asked[0]]
        x = yield SHARES @ b if biased else estimate, b


def svrg(ask, x):
    w, full = x, mean(ask.everyone(0), gradients(x))
    g = full
    for k in itertools.count(1):
        x = yield g, None
        if ask.coin(k):
            w, full = x, mean(ask.everyone(k), gradients(x))
            g = full
        else:
            g = mean(ask.some(k), gradients(x) - gradients(w)) + full


def rg_saga(ask, x, passes):
    b = np.zeros((CLIENTS, 3))
    asked = ask.everyone(0) if passes else ask.some(0)
    b[asked[0]] = gradients(x)[asked[0]]
    g = mean(asked, gradients(x))
    for k in itertools.count():
        new = yield g, b
        if k == 1 and passes == 2:
            b, _ = gradients(x), ask.everyone(k + 1)
        asked = ask.some(k + 1)
        estimate = mean(asked, gradients(x) - b) + SHARES @ b
        g = (1 - BETA) * g + BETA * estimate + mean(asked, gradients(new) - gradients(x))
        b[asked[0]] = gradients(x)[asked[0]]
        x = new


def rg_svrg(ask, x):
    w, full = x, mean(ask.everyone(0), gradients(x))
    g = full
    for k in itertools.count():
        new = yield g, None
        if k > 0 and ask.coin(k + 1):
            w, full = x, mean(ask.everyone(k + 1), gradients(x))
        asked = ask.some(k + 1)
        estimate = mean(asked, gradients(x)) - mean(asked, gradients(w)) + full
        g = (1 - BETA) * g + BETA * estimate + mean(asked, gradients(new)) - mean(asked, gradients(x))
        x = new


def sarah(ask, x):
    v = mean(ask.everyone(0), gradients(x))
    for k in itertools.count(1):
        new = yield v, None
        if ask.coin(k):
            v = mean(ask.everyone(k), gradients(new))
        else:
            v = mean(ask.some(k), gradients(new) - gradients(x)) + v
        x = new


def zero_sarah(ask, x):
    """Its Algorithm 1, with x^{-1} = x^0 and lambda_0 = 1."""
    y, v, old = np.zeros((CLIENTS, 3)), np.zeros(3), x
    for k in itertools.count():
        asked, rate = ask.some(k), BETA if k else 1.0
        recalled = mean(asked, gradients(old) - y) + SHARES @ y
        v = mean(asked, gradients(x) - gradients(old)) + (1 - rate) * v + rate * recalled
        y[asked[0]] = gradients(x)[asked[0]]
        old, x = x, (yield v, y)


def storm(ask, x):
    d = mean(ask.some(0), gradients(x))
    for k in itertools.count(1):
        new = yield d, None
        asked = ask.some(k)
        d = mean(asked, gradients(new)) + (1 - BETA) * (d - mean(asked, gradients(x)))
        x = new


@dataclass(frozen=True)
class Case:
    """An estimator, its textbook, and what a random exchange sends down and up and asks of a client."""

    estimator: t.Estimator
    textbook: Callable
    vectors: tuple[int, int]
    queries: int


CASES = {
    "saga": Case(t.Saga(), lambda ask, x: saga(ask, x, 2), (1, 1), 1),
    "sag": Case(t.Sag(passes=1), lambda ask, x: saga(ask, x, 1, biased=True), (1, 1), 1),
    "svrg": Case(t.Svrg(CHANCE), svrg, (2, 1), 2),
    "rg-saga": Case(t.RgSaga(beta=BETA), lambda ask, x: rg_saga(ask, x, 2), (2, 2), 2),
    "rg-svrg": Case(t.RgSvrg(CHANCE, BETA), rg_svrg, (3, 1), 3),
    "sarah": Case(t.Sarah(CHANCE), sarah, (2, 1), 2),
    "zerosarah": Case(t.ZeroSarah(beta=BETA), zero_sarah, (2, 2), 2),
    "storm": Case(t.Storm(BETA), storm, (2, 1), 2),
}


def storm_floor() -> float:
    """E|x - x*|^2 under STORM's stationary law, that of z = (x - x*, g) with z <- M_S z + v_S."""
    (matrices, vectors), eye, pull = problem().rows, np.eye(3), np.eye(3) / (LAM + 4)
    second, noise = np.zeros((36, 36)), np.zeros(36)
    for ids in map(list, ALL):
        weights = SHARES[ids] * CLIENTS / SIZE
        a = np.tensordot(weights, matrices[ids], 1)
        m = np.block([[eye, -pull], [BETA * a, (1 - BETA) * eye - a @ pull]])
        v = BETA * np.concatenate([np.zeros(3), a @ optimum().x - weights @ vectors[ids]])
        second, noise = second + np.kron(m, m), noise + np.kron(v, v)
    covariance = np.linalg.solve(np.eye(36) - second / len(ALL), noise / len(ALL)).reshape(6, 6)
    return np.trace(covariance[:3, :3])


def icgm(estimator, **options) -> t.Icgm:
    """The delegate's one step is x <- x - g / (LAM + 4)."""
    return t.Icgm(t.Nice(SIZE), estimator, lam=LAM, steps=1, smoothness=4.0, **options)


def play(estimator, rounds=ROUNDS, loss=0.0, **options) -> Session:
    """Play in one compiled program for all losses and numbers of rounds."""
    options |= {"faults": t.Faults(loss, "skip"), "metrics": ("distance",), "optimum": optimum()}
    return Session(icgm(estimator), problem(), seeds=Seeds.of(0), rounds=rounds, **options).run()


@pytest.mark.tiers(quick=[], slow=["rg-saga"])
@pytest.mark.parametrize("name", CASES)
def test_a_run_is_its_textbook_and_converges_for_the_messages_it_counts(name):
    case, asked = CASES[name], Asked()
    session, x = play(case.estimator), FIRST
    program = case.textbook(asked, x)
    (g, b), path = next(program), [x]
    for _ in range(ROUNDS):
        x = x - g / (LAM + 4)
        path.append(x)
        g, b = program.send(x)
    distances = np.sum((np.array(path) - optimum().x) ** 2, axis=1)
    np.testing.assert_allclose(session.trace.columns["distance"], distances, rtol=1e-9, atol=1e-20)
    server, clients = session.progress.server, session.progress.clients
    np.testing.assert_allclose(server.estimate.gradient, g, atol=1e-12)
    if b is not None:
        np.testing.assert_allclose(clients.memory, b, atol=1e-12)
        np.testing.assert_allclose(server.estimate.memory, SHARES @ b, atol=1e-12)
    if name == "storm":
        assert 0.5 * storm_floor() < np.mean(distances[50:]) < 2 * storm_floor()
    else:
        assert distances[-1] < 1e-20
    (down, up), ones = case.vectors, asked.passes * CLIENTS + asked.first * SIZE + ROUNDS
    counted = {
        "draws_arbitrary": asked.passes * PASS,
        "draws_random": asked.first + asked.later,
        "draws_delegate": ROUNDS,
        "reasks": 0,
        "exchanges": asked.passes + asked.first + asked.later + ROUNDS,
        "vectors_down": ones + down * asked.later * SIZE,
        "vectors_up": ones + up * asked.later * SIZE,
        "queries_slowest": asked.passes + asked.first + case.queries * asked.later + 2 * ROUNDS,
    }
    totals = session.trace.ledger.totals()
    assert {key: totals[key] for key in counted} == counted


@dataclass
class Once(Asked):
    """Draws the cohort `ids` and tosses no coin."""

    ids: tuple = ()

    def coin(self, k):
        return False

    def some(self, k):
        ids = np.array(self.ids)
        return ids, SHARES[ids] * CLIENTS / SIZE


@pytest.mark.parametrize("textbook", [lambda ask, x: saga(ask, x, 1), svrg], ids=["saga", "svrg"])
def test_what_a_run_was_found_to_be_is_unbiased(textbook):
    """g^1, whose b_i or w are of x^0, in the mean over all cohorts."""
    x, found = 2 * FIRST, []
    for ids in ALL:
        program = textbook(Once(ids=ids), FIRST)
        next(program)
        found.append(program.send(x)[0])
    assert np.std(found, axis=0).min() > 0
    np.testing.assert_allclose(np.mean(found, axis=0), SHARES @ gradients(x), atol=1e-13)


@pytest.mark.tiers(quick=[], slow=["zerosarah"])
@pytest.mark.parametrize("name", ["rg-saga", "zerosarah"])
def test_the_server_knows_the_mean_of_what_clients_keep_though_replies_are_lost(name):
    """b = sum_i lambda_i b_i, and the delegate has the server's x."""
    session = play(CASES[name].estimator, rounds=6, loss=0.4)
    server, clients = session.progress.server, session.progress.clients
    np.testing.assert_allclose(server.estimate.memory, SHARES @ clients.memory, atol=1e-13)
    assert np.linalg.norm(server.estimate.memory) > 0.1
    np.testing.assert_array_equal(clients.point[0], server.x)
    totals = session.trace.ledger.totals()
    assert 0 < totals["arrivals"] < totals["contacts"]


@pytest.mark.slow
def test_without_a_pull_the_recursive_gradient_is_sarah():
    """beta = 0, whatever the inner estimate: compared where no coin starts SARAH anew."""
    server = play(t.RgSaga(passes=1, beta=0.0), rounds=4).progress.server
    x, g = FIRST, SHARES @ gradients(FIRST)
    for number in range(1, 5):
        new = x - g / (LAM + 4)
        ids = cohorts(1)[number]
        g = g + SHARES[ids] * CLIENTS / SIZE @ (gradients(new) - gradients(x))[ids]
        x = new
    np.testing.assert_allclose(server.x, x, atol=1e-13)
    np.testing.assert_allclose(server.estimate.gradient, g, atol=1e-13)


def test_what_is_not_given_follows_the_share_of_a_cohort():
    """beta = m / n and the like, where practice has them."""
    problem = t.Quadratic.random(CLIENTS, 2)
    bound = {name: type(case.estimator)().bind(t.Nice(SIZE), problem) for name, case in CASES.items()}
    share = SIZE / CLIENTS
    assert bound["rg-saga"].beta == bound["rg-svrg"].beta == bound["storm"].beta == 2 * bound["zerosarah"].beta == share
    assert bound["svrg"].probability == bound["rg-svrg"].probability == bound["sarah"].probability == share


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.Saga(passes=3), "passes must be at most 2"),
        (lambda: t.RgSaga(beta=1.5), "beta must be at most 1"),
        (lambda: t.Storm(beta=0.0), "beta must be greater than 0"),
        (lambda: t.RgSvrg(probability=0.0), "probability must be greater than 0"),
        (lambda: t.Sarah(probability=-0.1), "probability must be at least 0"),
    ],
)
def test_a_bad_number_is_one_sentence(make, words):
    with pytest.raises(t.UserError, match=words):
        make()
