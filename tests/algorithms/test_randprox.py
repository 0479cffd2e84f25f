"""RandProx (Condat and Richtarik, 2023, Algorithm 2) is Scaffnew, and Point-SAGA, with the right randomised prox.

RandProx minimises f(x) + h(K x) by v = x - gamma (grad f(x) + K' u), d = R(prox_{tau h*}(u + tau K v) - u),
u <- u + d / (1 + omega), x <- v - gamma K' d, with an unbiased random R of variance omega.
"""

import jax
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from turnout.core.seeds import Seeds

N, DIMENSION = 5, 3
EXACT = t.client_solvers.NewtonCg(tolerance=1e-13, relative=1e-13)


def problem() -> t.Quadratic:
    return t.Quadratic.random(N, DIMENSION, seed=4)


def randprox(x, u, gradient, k, prox, random, omega, gamma):
    """One iteration; `k` is K as a matrix on the numbers in a row."""
    v = x - gamma * (gradient(x) + k.T @ u)
    change = random(prox(u, k @ v) - u)
    return v - gamma * k.T @ change, u + change / (1 + omega)


@pytest.mark.longer
def test_scaffnew_is_randprox_whose_prox_is_the_mean_that_is_taken_now_and_then():
    """f is the sum of f_i(x_i), h is 0 where all x_i are equal, K = I, R is a coin by p and tau = p / gamma; u_i = -h_i."""
    lr, p, rounds = 0.05, 0.3, 20
    matrices, vectors = problem().rows
    slopes = lambda x: (np.einsum("nij,nj->ni", matrices, x.reshape(N, DIMENSION)) - vectors).reshape(-1)  # noqa: E731
    centre = np.kron(np.eye(N) - np.ones((N, N)) / N, np.eye(DIMENSION))
    prox = lambda u, v: centre @ (u + p / lr * v)  # noqa: E731
    x = u = np.zeros(N * DIMENSION)
    for number in range(1, rounds + 1):
        steps = int(jax.random.geometric(jax.random.fold_in(Seeds.of(1).exchange(number, 0), N), p))
        for k in range(1, steps + 1):
            coin = lambda change, k=k, steps=steps: change / p * (k == steps)  # noqa: E731
            x, u = randprox(x, u, slopes, np.eye(x.size), prox, coin, 1 / p - 1, lr)
    trace = t.run(t.Scaffnew(t.Full(), lr, p), problem(), rounds=rounds, seed=1)
    np.testing.assert_allclose(np.tile(trace.x, N), x, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_point_saga_is_randprox_that_updates_one_dual_vector():
    """f = 0, h is the sum of f_i(x_i), K x = (x, ..., x), R is n times a block, n gamma and 1 / tau are Point-SAGA's gamma."""
    gamma, rounds = 0.1, 20
    matrices, vectors = problem().rows
    k = np.tile(np.eye(DIMENSION), (N, 1))

    def prox(u, v):
        """u + (v - w) / gamma, w minimising f_i(w) - u.w + |w - v|^2 / (2 gamma)."""
        u, v = u.reshape(N, DIMENSION), v.reshape(N, DIMENSION)
        w = np.linalg.solve(np.eye(DIMENSION) / gamma + matrices, (vectors + u + v / gamma)[..., None])[..., 0]
        return (u + (v - w) / gamma).reshape(-1)

    x, u = np.zeros(DIMENSION), np.zeros(N * DIMENSION)
    for ((i, *_),) in cohorts(t.Nice(1), problem(), 1, rounds):
        block = np.repeat(np.arange(N) == i, DIMENSION)
        x, u = randprox(x, u, np.zeros_like, k, prox, lambda change, block=block: N * block * change, N - 1, gamma / N)
    trace = t.run(t.PointSaga(t.Nice(1), EXACT, gamma), problem(), rounds=rounds, seed=1)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
