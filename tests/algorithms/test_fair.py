"""q-FedAvg and AFL: against plain programs, and what they minimise."""

import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_fedexprox import least
from tests.algorithms.test_references import cohorts
from tests.helpers.similar import CLIENTS, SHARES, similar, slope, weights
from turnout.algorithms.agnostic_fl import onto_simplex

ROUNDS, LR, STEPS = 50, 0.02, 3


def problem() -> t.Quadratic:
    """Eight clients of unequal weights that differ much."""
    return similar(False, share=0.8)


def losses(x, of=None) -> np.ndarray:
    """f_i(x) [n]."""
    matrices, vectors = (of or problem()).rows
    return np.einsum("i,nij,j->n", x, matrices, x) / 2 - vectors @ x


def fair_step(x, cohort, q):
    top, bottom = np.zeros(4), 0.0
    for i, _, weight in cohort:
        y = x
        for _ in range(STEPS):
            y = y - LR * slope(problem(), i, y)
        loss, pull = losses(x)[i] - least(problem())[i] + 1e-10, (x - y) / LR
        top = top + weight * loss**q * pull
        bottom += weight * (q * loss ** (q - 1) * pull @ pull + loss**q / LR)
    return x - top / bottom


@pytest.mark.tiers(quick=[], longer=["independent"])
@pytest.mark.parametrize(("sampler", "q"), [(t.Nice(3), 2.0), (t.Independent(size=2.0), 0.5)], ids=["nice", "independent"])
def test_a_run_of_q_fedavg_is_its_numpy_program(sampler, q):
    x = np.zeros(4)
    trace = t.run(t.QFedAvg(sampler, LR, q, STEPS, minimum=least(problem())), problem(), rounds=ROUNDS, seed=1)
    for cohort in cohorts(sampler, problem(), 1, ROUNDS):
        x = fair_step(x, cohort, q) if cohort else x
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


@pytest.mark.longer
def test_q_fedavg_minimises_its_objective_and_evens_out_the_losses():
    """One step and everyone: sum_i lambda_i F_i^q grad f_i = 0, the only minimum of a convex f_q, and the largest F_i falls."""
    largest = []
    for q in (0.0, 1.0, 4.0):
        algorithm = t.QFedAvg(t.Full(), LR, q, 1, minimum=least(problem()))
        x = t.run(algorithm, problem(), rounds=4000, every=4000).x
        excess = losses(x) - least(problem())
        factors = SHARES * (excess / excess.max()) ** q
        pulls = np.array([slope(problem(), i, x) for i in range(CLIENTS)])
        assert np.linalg.norm(factors @ pulls) < 1e-6 * np.max(np.linalg.norm(pulls, axis=1))
        largest.append(excess.max())
    assert largest[0] > 1.05 * largest[1] > 1.05**2 * largest[2]


def test_q_0_is_fedavg():
    runs = [
        t.run(one, problem(), rounds=5).x
        for one in (t.QFedAvg(t.Full(), LR, 0.0, STEPS, minimum=least(problem())), t.FedAvg(t.Full(), LR, STEPS))
    ]
    np.testing.assert_allclose(*runs, rtol=0, atol=1e-12)


def projected(point) -> np.ndarray:
    """The nearest point of the simplex, by bisection for the number that is taken from each entry."""
    low, high = point.min() - 1, point.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(point - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(point - high, 0)


def agnostic_program(problem, draws, lr, weights_lr, x):
    """Return the means of x and w before the steps, the gradients and the losses of the rounds."""
    w, points, mixtures, gradients, seen = np.full(CLIENTS, 1 / CLIENTS), [], [], [], []
    for cohort in draws:
        points, mixtures = [*points, x], [*mixtures, w]
        gradients.append(sum((w[i] * weight / share * slope(problem, i, x) for i, share, weight in cohort), np.zeros(4)))
        seen.append(np.zeros(CLIENTS))
        for i, share, weight in cohort:
            seen[-1][i] = weight / share * losses(x, problem)[i]
        x, w = x - lr * gradients[-1], projected(w + weights_lr * seen[-1])
    return np.mean(points, axis=0), np.mean(mixtures, axis=0), np.array(gradients), np.array(seen)


@pytest.mark.longer
def test_a_run_of_afl_is_its_numpy_program():
    """With weights lambda_i that have no part in it, and rounds in which nobody is drawn."""
    sampler = t.Independent(size=2.0)
    trace = t.run(t.AgnosticFl(sampler, LR, 0.01), problem(), rounds=ROUNDS, seed=1)
    draws = cohorts(sampler, problem(), 1, ROUNDS)
    np.testing.assert_allclose(trace.x, agnostic_program(problem(), draws, LR, 0.01, np.zeros(4))[0], rtol=0, atol=1e-10)


def check_afl(problem, lr, weights_lr, rounds, start) -> tuple[np.ndarray, float, float]:
    """Require max_i f_i(mean x) - min_x sum_i w_i f_i(x), w the mean, to be within its bound; return mean x and both.

    Everyone takes part.
    """
    everyone = [(i, share, share) for i, share in enumerate(weights(problem))]
    mean, w, gradients, seen = agnostic_program(problem, rounds * [everyone], lr, weights_lr, start)
    trace = t.run(t.AgnosticFl(t.Full(), lr, weights_lr), problem, rounds=rounds, every=rounds, start=start)
    np.testing.assert_allclose(trace.x, mean, rtol=0, atol=1e-10 * max(1.0, np.linalg.norm(start)))
    matrices, vectors = problem.rows
    best = np.linalg.solve(np.tensordot(w, matrices, 1), w @ vectors)
    worst = np.eye(CLIENTS)[np.argmax(losses(mean, problem))]
    away = np.sum((start - best) ** 2)
    terms = [away / lr, lr * np.sum(gradients**2), np.sum((1 / CLIENTS - worst) ** 2) / weights_lr]
    bound = (sum(terms) + weights_lr * np.sum(seen**2)) / (2 * rounds)
    gap = losses(mean, problem).max() - w @ losses(best, problem)
    assert 0 <= gap <= bound
    return mean, gap, bound


@pytest.mark.longer
def test_afl_is_within_its_bound():
    mean, _, bound = check_afl(problem(), lr=0.02, weights_lr=0.005, rounds=600, start=np.zeros(4))
    average = np.linalg.solve(*(part.mean(0) for part in problem().rows))
    assert losses(mean).max() < losses(average).max() and bound < losses(average).max() - losses(average).min()


@pytest.mark.tiers(longer=["1"])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_a_projection_onto_the_simplex_is_the_nearest_point(n):
    for point in np.random.default_rng(n).normal(scale=2.0, size=(20, n)):
        np.testing.assert_allclose(onto_simplex(jnp.asarray(point)), projected(point), rtol=0, atol=1e-12)
