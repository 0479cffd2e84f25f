"""GradSkip: against its algorithm with all coins, its theorem by enumeration, and its queries beside those of Scaffnew."""

import itertools

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.theorems import LocalTheorem
from turnout.core.seeds import Seeds
from turnout.runs.session import Session

SHARES = np.array([0.1, 0.4, 0.3, 0.2])
ROUNDS, P = 50, 0.3


def unlike(weights=None) -> t.Quadratic:
    """Four clients with the largest curvature L_i = 2, 5, 10 and 100, and the smallest 1."""
    generator, matrices = np.random.default_rng(0), []
    for largest in (2.0, 5.0, 10.0, 100.0):
        basis = np.linalg.qr(generator.normal(size=(3, 3)))[0]
        matrices.append(basis @ np.diag([1.0, (1 + largest) / 2, largest]) @ basis.T)
    return t.Quadratic.of(np.array(matrices), generator.normal(size=(4, 3)), weights=weights)


def slope(problem, i, x):
    return problem.rows[0][i] @ x - problem.rows[1][i]


def iterate(problem, shares, points, h, coins, communicates, lr, p):
    """One iteration of the paper's Algorithm 1, lambda_i in the place of 1 / n."""
    slopes = np.array([slope(problem, i, x) for i, x in enumerate(points)])
    held = np.where(np.array(coins)[:, None], h, slopes)
    ahead = points - lr * (slopes - held)
    points = np.tile(shares @ (ahead - lr / p * held), (len(ahead), 1)) if communicates else ahead
    return points, held + p / lr * (points - ahead)


def lasts(seed, number, going) -> np.ndarray:
    """The step whose coin is the first to show 0, for each client."""
    keys = [jax.random.fold_in(Seeds.of(seed).exchange(number, 0), i) for i in range(4)]
    luck = np.array([float(jax.random.uniform(key, (), float)) for key in keys])
    return 1 + np.floor(np.log(luck) / np.log(going))


@pytest.mark.slow
def test_a_run_is_its_algorithm_with_every_coin():
    """Also those that change nothing, since a client has stopped; queries are those of clients that have not."""
    problem, lr, going = unlike(SHARES), 0.01, [0.4, 0.6, 0.8, 0.95]
    trace = t.run(t.GradSkip(t.Full(), lr, P, going), problem, rounds=ROUNDS, seed=1)
    points, h, queries = np.zeros((4, 3)), np.zeros((4, 3)), 0
    for number in range(1, ROUNDS + 1):
        steps = int(jax.random.geometric(jax.random.fold_in(Seeds.of(1).exchange(number, 0), 4), P))
        last = lasts(1, number, going)
        for k in range(1, steps + 1):
            points, h = iterate(problem, SHARES, points, h, k < last, k == steps, lr, P)
        queries += int(np.minimum(last, steps).sum())
    np.testing.assert_allclose(trace.x, points[0], rtol=0, atol=1e-10)
    assert trace.ledger.totals()["queries_total"] == queries


class Known:
    """p = kappa^(-1/2), the q_i and the largest lr of the theorem, its rate, and Psi."""

    def __init__(self, problem):
        self.problem, constants = problem, problem.constants()
        mu, smoothness = np.min(constants.convexity), np.asarray(constants.smoothness)
        self.p = float(np.sqrt(mu / smoothness.max()))
        self.going = (1 - mu / smoothness) / (1 - mu / smoothness.max())
        self.lr = float(np.min(self.p**2 / (smoothness * (1 - self.going * (1 - self.p**2)))))
        self.rate = 1 - min(self.lr * mu, 1 - self.going.max() * (1 - self.p**2))
        self.x = np.linalg.solve(problem.rows[0].mean(0), problem.rows[1].mean(0))
        self.ideal = np.array([slope(problem, i, self.x) for i in range(4)])

    def psi(self, x, h) -> float:
        return np.sum((x - self.x) ** 2) + (self.lr / self.p) ** 2 * np.sum((h - self.ideal) ** 2)

    def falls(self) -> list[float]:
        """E Psi over all 32 outcomes of the coins of a local step by Psi, from three states."""
        generator, falls = np.random.default_rng(3), []
        for scale in (0.0, 1.0, 30.0):
            x, h = generator.normal(size=(4, 3)), scale * generator.normal(size=(4, 3))
            after = 0.0
            for communicates, *coins in itertools.product((False, True), repeat=5):
                chance = np.prod(np.where(coins, self.going, 1 - self.going)) * (self.p if communicates else 1 - self.p)
                step = iterate(self.problem, np.full(4, 0.25), x, h, coins, communicates, self.lr, self.p)
                after += chance * self.psi(*step)
            falls.append(after / self.psi(x, h))
        return falls

    def theorem(self, algorithm) -> LocalTheorem:
        """Of n |x - x*|^2, which is a part of Psi."""
        return LocalTheorem(self.problem, algorithm, self.psi(np.zeros((4, 3)), np.zeros((4, 3))) / 4, self.rate)


def gradskip_theorem(problem) -> LocalTheorem:
    known = Known(problem)
    return known.theorem(t.GradSkip(t.Full(), known.lr, known.p))


def scaffnew_theorem(problem) -> LocalTheorem:
    """lr = 1 / L, with which the rates of both theorems are the same."""
    known = Known(problem)
    assert known.lr == pytest.approx(1 / max(problem.constants().smoothness)) and known.rate == pytest.approx(1 - known.p**2)
    return known.theorem(t.Scaffnew(t.Full(), known.lr, known.p))


def test_every_local_step_falls_at_the_theorems_rate():
    """E Psi falls by 1 - min(lr mu, 1 - max q_i (1 - p^2)), from anywhere."""
    known = Known(unlike())
    assert known.lr == pytest.approx(1 / 100) and known.going.max() == 1 and known.rate == pytest.approx(0.99)
    assert max(known.falls()) <= known.rate * (1 + 1e-12)


@pytest.mark.slow
def test_it_needs_the_rounds_of_scaffnew_and_fewer_queries():
    """Its own q_i; queries are 1 / (1 - q_i (1 - p)) a round on average, within five deviations."""
    problem, known, rounds = unlike(), Known(unlike()), 60
    p, going, lr = known.p, known.going, known.lr
    skipping, plain = (
        t.run(make(t.Full(), lr, p), problem, rounds=rounds, metrics=("distance",), every=rounds)
        for make in (t.GradSkip, t.Scaffnew)
    )
    left = [trace.columns["distance"][-1] for trace in (skipping, plain)]
    assert left[0] < 10 * left[1] and left[0] < 1e-4 * skipping.columns["distance"][0]
    stops = 1 - going * (1 - p)
    # The number of steps is common to all clients, so that their deviations may add up.
    spread = np.sqrt(rounds) * np.sum(np.sqrt(1 - stops) / stops)
    queries = [trace.ledger.totals()["queries_total"] for trace in (skipping, plain)]
    assert abs(queries[0] - rounds * np.sum(1 / stops)) < 5 * spread
    assert queries[0] < 0.6 * queries[1]


@pytest.mark.longer
def test_clients_that_always_go_on_are_those_of_scaffnew():
    one, other = (
        t.run(algorithm, unlike(SHARES), rounds=5)
        for algorithm in (t.GradSkip(t.Full(), 0.01, P, going=1.0), t.Scaffnew(t.Full(), 0.01, P))
    )
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-14)
    assert one.ledger.totals() == other.ledger.totals()


@pytest.mark.longer
def test_the_variates_sum_to_zero_whatever_is_lost():
    """sum_i lambda_i h_i = 0 once each client has made its step of h_i."""
    problem, lr = unlike(SHARES), 0.01
    algorithm = t.GradSkip(t.Full(), lr, P, going=[0.4, 0.6, 0.8, 0.95])
    session = Session(algorithm, problem, seeds=Seeds.of(0), rounds=8, faults=t.Faults(0.4, "skip"))
    for _ in session.play():
        (z, g), owed = session.progress.clients, session.progress.server.owed
        np.testing.assert_allclose(SHARES @ (g + P / lr * (owed - z)), 0, atol=1e-11)
    assert np.linalg.norm(g) > 0.1


def test_what_is_not_known_is_one_sentence():
    with pytest.raises(t.UserError, match="the q_i do not follow: give going"):
        flat = t.Quadratic.of(np.zeros((4, 3, 3)), np.ones((4, 3)))
        t.run(t.GradSkip(t.Full(), 0.1, P), flat, rounds=1)
    with pytest.raises(t.UserError, match=r"GradSkip\.going must be one number, or a list of 4"):
        t.run(t.GradSkip(t.Full(), 0.1, P, going=[0.5]), unlike(), rounds=1)
