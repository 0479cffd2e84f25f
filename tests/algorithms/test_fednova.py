"""FedNova: against a plain program, and where it goes when clients take unequal numbers of steps."""

import itertools

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_fedvarp import CHANCES, These
from tests.algorithms.test_references import cohorts
from tests.algorithms.test_scaffold import SHARES, STEPS, optimum, quadratic
from tests.helpers.gradients import client_gradient
from turnout.data.dataset import Dataset
from turnout.data.splits import Split

ROUNDS, LR = 50, 0.05


def accumulated(steps, momentum, shrink) -> float:
    """|a_i|_1: gradient j is in step k times momentum^(k - j), and step k is kept by a factor `shrink` in each later one."""
    return sum(shrink ** (steps - 1 - k) * momentum ** (k - j) for k in range(steps) for j in range(k + 1))


def local_steps(problem, i, x, momentum, mu, lr):
    y, m = x, np.zeros_like(x)
    for _ in range(STEPS[i]):
        m = momentum * m + client_gradient(problem, i, y)
        y = y - lr * (m + mu * (y - x))
    return y


@pytest.mark.tiers(quick=[], longer=["plain"])
@pytest.mark.parametrize(
    ("sampler", "options"),
    [(t.Nice(3), {}), (t.Nice(3), {"momentum": 0.6, "mu": 1.5}), (t.Independent(size=3.0), {"mu": 0.5, "tau": 2.0})],
    ids=["plain", "momentum and mu", "fixed"],
)
def test_a_run_is_its_numpy_program(sampler, options):
    problem, x = quadratic(), np.zeros(3)
    momentum, mu, tau = options.get("momentum", 0.0), options.get("mu", 0.0), options.get("tau")
    trace = t.run(t.FedNova(sampler, lr=LR, steps=STEPS, **options), problem, rounds=ROUNDS, seed=1)
    for cohort in cohorts(sampler, problem, 1, ROUNDS):
        work = {i: accumulated(STEPS[i], momentum, 1 - LR * mu) for i, *_ in cohort}
        changes = [weight * (local_steps(problem, i, x, momentum, mu, LR) - x) / work[i] for i, _, weight in cohort]
        if cohort:
            mean = sum(share * work[i] for i, share, _ in cohort) / sum(share for _, share, _ in cohort)
            x = x + (tau or mean) * np.sum(changes, axis=0)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


def test_the_work_of_momentum_and_of_the_proximal_term_is_the_papers():
    """|a_i|_1 = (E - rho (1 - rho^E) / (1 - rho)) / (1 - rho), and (1 - (1 - alpha)^E) / alpha (section 4.1)."""
    steps, rho, alpha = 7, 0.6, 0.1
    assert accumulated(steps, rho, 1) == pytest.approx((steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho))
    assert accumulated(steps, 0, 1 - alpha) == pytest.approx((1 - (1 - alpha) ** steps) / alpha)


def fixed_point(lr, worth) -> np.ndarray:
    """Where sum_i lambda_i worth_i (I - (I - lr A_i)^E_i) (x - x_i*) = 0: local steps, their changes times worth_i."""
    matrices, vectors = quadratic().rows
    powers = [np.linalg.matrix_power(np.eye(3) - lr * a, steps) for a, steps in zip(matrices, STEPS, strict=True)]
    pulls = (SHARES * worth)[:, None, None] * (np.eye(3) - np.array(powers))
    optima = np.linalg.solve(matrices, vectors[..., None])[..., 0]
    return np.linalg.solve(pulls.sum(0), np.einsum("nij,nj->i", pulls, optima))


@pytest.mark.longer
def test_the_bias_of_unequal_steps_is_gone():
    """As lr falls, FedAvg stops at the minimiser of sum_i lambda_i E_i f_i, and FedNova at that of f, at a distance of O(lr)."""
    steps, problem = np.array(STEPS, float), quadratic()
    trace = t.run(t.FedNova(t.Full(), lr=0.02, steps=STEPS), problem, rounds=1200, every=1200)
    np.testing.assert_allclose(trace.x, fixed_point(0.02, 1 / steps), rtol=0, atol=1e-11)
    best = optimum(*problem.rows)
    matrices, vectors = problem.rows
    other = np.linalg.solve(np.tensordot(SHARES * steps, matrices, 1), SHARES * steps @ vectors)
    away = [np.linalg.norm(fixed_point(lr, 1 / steps) - best) for lr in (1e-3, 1e-4, 1e-5)]
    np.testing.assert_allclose([away[0] / away[1], away[1] / away[2]], 10, rtol=0.05)
    np.testing.assert_allclose(fixed_point(1e-6, 1), other, rtol=0, atol=1e-4 * np.linalg.norm(best))
    assert np.linalg.norm(other - best) > 0.1 * np.linalg.norm(best)


@pytest.mark.slow
def test_two_clients_with_unequal_epochs():
    """f_1 = (x - 1)^2 / 2 on 2 rows and f_2 = (x + 1)^2 / 2 on 6, in batches of 2: 1 and 3 steps towards 1 and -1."""
    sizes, lr = (2, 6), 0.01
    dataset = Dataset("made", np.ones((8, 1)), np.repeat([1.0, -1.0], sizes))
    problem = t.Ridge.of(dataset, Split(np.arange(8), np.cumsum([0, *sizes])), mu=0.0, weights=np.array([0.5, 0.5]))
    options = {"lr": lr, "batch": 2, "epochs": 1}
    nova, average = (
        t.run(make(t.Full(), **options), problem, rounds=2000, every=2000).x.item() for make in (t.FedNova, t.FedAvg)
    )
    pulls = np.array([1 - (1 - lr), 1 - (1 - lr) ** 3])
    assert average == pytest.approx((pulls[0] - pulls[1]) / pulls.sum(), abs=1e-12)
    pulls /= [1, 3]
    assert nova == pytest.approx((pulls[0] - pulls[1]) / pulls.sum(), abs=1e-12)
    assert abs(nova) < lr and abs(average + 1 / 2) < lr


@pytest.mark.longer
def test_the_expected_step_is_that_of_everyone():
    """Over all 16 cohorts of independent coins, with a fixed tau and unequal weights."""
    problem = t.Quadratic.of(*t.Quadratic.random(4, 3, seed=5).rows, weights=np.array([0.4, 0.3, 0.2, 0.1]))
    make = lambda sampler: t.FedNova(sampler, lr=LR, steps=[1, 2, 3, 4], tau=2.0)  # noqa: E731
    expected = np.zeros(3)
    for chosen in itertools.product((False, True), repeat=4):
        new = t.run(make(These(np.array(chosen), CHANCES)), problem, rounds=1).x
        expected += np.prod(np.where(chosen, CHANCES, 1 - CHANCES)) * new
    everyone = t.run(make(These(np.ones(4, bool), np.ones(4))), problem, rounds=1).x
    np.testing.assert_allclose(expected, everyone, rtol=0, atol=1e-13)
