"""Cohort solvers reach the proximal point, and first-order ones at their known rates."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import turnout as t


def solve(solver, value_and_grad, x, convexity, steps):
    """Play a cohort solver by hand, with NumPy as the cohort; return all points asked about and the last guess."""
    state, points = solver.start(jnp.asarray(x), convexity=convexity), []
    for _ in range(steps):
        points.append(np.asarray(solver.query(state)))
        value, gradient = value_and_grad(points[-1])
        state = solver.update(state, jnp.asarray(value), jnp.asarray(gradient))
    return points, np.asarray(solver.query(state))


def quadratic(condition: float, dimension: int = 10, seed: int = 0):
    """f(y) = y^T A y / 2 - <b, y> with eigenvalues from 1 to `condition`."""
    generator = np.random.default_rng(seed)
    basis = np.linalg.qr(generator.normal(size=(dimension, dimension)))[0]
    a = basis @ np.diag(np.geomspace(1, condition, dimension)) @ basis.T
    return a, generator.normal(size=dimension)


@pytest.mark.parametrize("gamma", [0.1, 10.0, 1e6])
@pytest.mark.parametrize("condition", [10.0, 1e4])
@pytest.mark.parametrize(
    ("kind", "steps"), [(t.GradientDescent, 200_000), (t.AcceleratedGradient, 4000), (t.Bfgs, 300)], ids=["gd", "agd", "bfgs"]
)
def test_the_proximal_point_is_reached(kind, steps, condition, gamma):
    a, b = quadratic(condition)
    x = np.ones(10)
    exact = np.linalg.solve(a + np.eye(10) / gamma, b + x / gamma)
    solver = kind(smoothness=condition, convexity=1.0)
    if kind is t.GradientDescent:
        # On a quadratic its K steps are a power of one matrix, which spares the loop.
        step = 1 / (condition + 1 / gamma)
        shrink = np.linalg.matrix_power(np.eye(10) - step * (a + np.eye(10) / gamma), 100)
        _, found = solve(solver, lambda y: (0.0, (a + np.eye(10) / gamma) @ (y - exact)), x, 1 / gamma, 100)
        np.testing.assert_allclose(found, exact + shrink @ (x - exact), atol=1e-9)
        return

    def phi(y):
        value = 0.5 * y @ a @ y - b @ y + (y - x) @ (y - x) / (2 * gamma)
        return value, a @ y - b + (y - x) / gamma

    _, found = solve(solver, phi, x, 1 / gamma, steps)
    np.testing.assert_allclose(found, exact, atol=1e-10)


def test_accelerated_gradient_keeps_nesterovs_rate():
    """phi(y_k) - phi* <= (L + mu) / 2 (1 - sqrt(mu / L))^k |x - y*|^2 (Nesterov, 2018, theorem 2.2.3)."""
    a, b = quadratic(1000.0)
    exact = np.linalg.solve(a, b)
    points, _ = solve(t.AcceleratedGradient(smoothness=1000.0, convexity=1.0), lambda y: (0.0, a @ y - b), np.ones(10), 0.0, 300)
    descents = [z - (a @ z - b) / 1000 for z in points]
    gaps = np.array([(y - exact) @ a @ (y - exact) / 2 for y in descents])
    bound = (1000 + 1) / 2 * (1 - np.sqrt(1 / 1000)) ** np.arange(1, 301) * np.sum((np.ones(10) - exact) ** 2)
    assert np.all(gaps <= bound)


@pytest.mark.parametrize("seed", range(5))
def test_bfgs_minimises_a_logistic_loss_with_a_bad_first_scale(seed):
    """Even where L is 100 times too small, so that the first trials overshoot, the line search saves the day."""
    generator = np.random.default_rng(seed)
    a, b = 5 * generator.normal(size=(40, 8)), np.sign(generator.normal(size=40))

    def phi(y):
        margins = b * (a @ y)
        slopes = -b / (1 + np.exp(margins))
        return np.mean(np.logaddexp(0, -margins)) + 0.05 * y @ y, a.T @ slopes / 40 + 0.1 * y

    smoothness = np.linalg.eigvalsh(a.T @ a)[-1] / 160 / 100
    points, found = solve(t.Bfgs(smoothness=smoothness, convexity=0.1), phi, np.zeros(8), 0.0, 80)
    exact = minimize(phi, np.zeros(8), jac=True, method="BFGS", options={"gtol": 1e-12}).x
    np.testing.assert_allclose(found, exact, atol=1e-6)
    assert np.linalg.norm(phi(found)[1]) < 1e-9


def test_bfgs_never_accepts_an_increase():
    """The accepted values fall, up to the slack, whatever the function does."""
    generator = np.random.default_rng(4)
    a = generator.normal(size=(6, 6))

    def rugged(y):
        return np.sum(np.cos(a @ y)) + y @ y / 4, -a.T @ np.sin(a @ y) + y / 2

    solver = t.Bfgs(smoothness=1.0)
    state, accepted = solver.start(jnp.asarray(generator.normal(size=6)), convexity=0.0), []
    for _ in range(60):
        value, gradient = rugged(np.asarray(solver.query(state)))
        state = solver.update(state, jnp.asarray(value), jnp.asarray(gradient))
        accepted.append(float(state.value))
    assert np.all(np.diff(accepted) <= 1e-6 * np.abs(accepted[1:]))
    assert accepted[-1] < accepted[0]


def test_a_solver_without_its_constant_says_so():
    from table import network

    with pytest.raises(t.UserError, match="Bfgs needs smoothness: Network does not know it"):
        t.run(t.Sppm(t.Nice(2), t.Bfgs(), gamma=1.0), network(), rounds=1)
    with pytest.raises(t.UserError, match="gamma must be greater than 0"):
        t.Sppm(t.Nice(2), t.Bfgs(), gamma=0.0)
