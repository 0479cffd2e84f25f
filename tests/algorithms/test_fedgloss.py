"""FedGloSS: against a plain program, and as FedDyn where nobody goes uphill."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.algorithms.test_scaffold import SHARES, STEPS, optimum, quadratic
from tests.helpers.gradients import client_gradient

ROUNDS, LR, RADIUS, OUTER, BETA = 50, 0.05, 0.05, 0.1, 0.5


def length(vector) -> float:
    return float(np.linalg.norm(vector)) or 1.0


def plain(sampler, rounds) -> np.ndarray:
    problem, x, g, h = quadratic(), np.zeros(3), np.zeros(3), np.zeros((6, 3))
    for cohort in cohorts(sampler, problem, 1, rounds):
        if not cohort:
            continue
        z, mean, total = x + OUTER * g / length(g), np.zeros(3), sum(share for _, share, _ in cohort)
        for i, share, _ in cohort:
            y = z
            for _ in range(STEPS[i]):
                u = client_gradient(problem, i, y)
                y = y - LR * (client_gradient(problem, i, y + RADIUS * u / length(u)) - h[i] + (y - z) / BETA)
            mean, h[i] = mean + share / total * y, h[i] - (y - z) / BETA
        g = z - mean
        x = x - g - BETA * SHARES @ h
    return x


@pytest.mark.longer
@pytest.mark.parametrize(
    "sampler", [t.Nice(3), pytest.param(t.Independent(size=3.0), marks=pytest.mark.slow)], ids=["nice", "independent"]
)
def test_a_run_is_its_numpy_program(sampler):
    algorithm = t.FedGloSs(sampler, LR, RADIUS, STEPS, server_radius=OUTER, beta=BETA)
    trace = t.run(algorithm, quadratic(), rounds=ROUNDS, seed=1)
    np.testing.assert_allclose(trace.x, plain(sampler, ROUNDS), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_without_radii_it_is_feddyn_with_local_steps():
    """Many steps solve the subproblem, and few leave the fixed point where it is: the minimiser of f."""
    options = {"server_radius": 0.0, "beta": BETA}
    many = t.run(t.FedGloSs(t.Nice(3), 0.05, 0.0, 400, **options), quadratic(), rounds=10, seed=1)
    dyn = t.run(t.FedDyn(t.Nice(3), t.client_solvers.Bfgs(tolerance=1e-12), gamma=BETA), quadratic(), rounds=10, seed=1)
    np.testing.assert_allclose(many.x, dyn.x, rtol=0, atol=1e-8)
    few = t.run(t.FedGloSs(t.Nice(3), 0.05, 0.0, STEPS, **options), quadratic(), rounds=4000, every=4000)
    np.testing.assert_allclose(few.x, optimum(*quadratic().rows), rtol=0, atol=1e-9)
