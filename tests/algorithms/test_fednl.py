"""FedNL and its kin: against plain programs on symmetric matrices, and against the rates of their theorems."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.helpers.examples import logistic, small
from tests.helpers.gradients import client_gradient, client_hessian
from turnout.codecs.base import round_trip
from turnout.core.messages import payload
from turnout.core.triangle import symmetric, triangle

ROUNDS, D = 50, 5
SIZE = D * (D + 1) // 2
C = t.codecs
CODECS = {"rank-1": C.Eigenpairs(rank=1), "top-4": C.TopK(count=4), "zero": None}


def compressed(name: str, matrix: np.ndarray) -> np.ndarray:
    """C of a symmetric matrix."""
    if name == "rank-1":
        values, vectors = np.linalg.eigh(matrix)
        best = np.argmax(np.abs(values))
        return values[best] * np.outer(vectors[:, best], vectors[:, best])
    kept = np.zeros_like(matrix)
    # A pair of entries has the square 2 m_ij^2 in the Frobenius norm.
    lower = [(abs(matrix[i, j]) * (1 if i == j else np.sqrt(2)), i, j) for i in range(len(matrix)) for j in range(i + 1)]
    for _, i, j in sorted(lower, reverse=True)[: 4 if name == "top-4" else 0]:
        kept[i, j] = kept[j, i] = matrix[i, j]
    return kept


def projected(matrix: np.ndarray, mu: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, mu)) @ vectors.T


def shares(problem) -> np.ndarray:
    return np.asarray(problem.population.shares)


def everyone(problem) -> list:
    return [(i, share, share) for i, share in enumerate(shares(problem))]


def optimum(problem) -> np.ndarray:
    """Newton's method in NumPy."""
    x = np.zeros(problem.start(None).size)
    for _ in range(30):
        gradient = sum(share * client_gradient(problem, i, x) for i, share, _ in everyone(problem))
        x = x - np.linalg.solve(sum(share * client_hessian(problem, i, x) for i, share, _ in everyone(problem)), gradient)
    return x


def program(problem, draws, name, option, first, x):
    """Yield x and the H_i after 0, 1, ... rounds."""
    learned = np.array([client_hessian(problem, i, x) * (first == "hessian") for i in range(problem.clients)])
    yield x, learned.copy()
    for cohort in draws:
        hessian = np.tensordot(shares(problem), learned, 1)
        gradient, distance = np.zeros_like(x), 0.0
        for i, _, weight in cohort:
            gap = client_hessian(problem, i, x) - learned[i]
            gradient = gradient + weight * client_gradient(problem, i, x)
            distance += weight * np.linalg.norm(gap)
            learned[i] += compressed(name, gap)
        if cohort:
            matrix = projected(hessian, problem.mu) if option == "I" else hessian + distance * np.eye(len(x))
            x = x - np.linalg.solve(matrix, gradient)
        yield x, learned.copy()


RUNS = {
    "everyone": (t.Full(), "rank-1", "I", "hessian"),
    "shifted": (t.Nice(6), "top-4", "II", "zero"),
    "coins": (t.Independent(size=8.0), "rank-1", "II", "hessian"),
    "newton-zero": (t.Nice(9), "zero", "I", "hessian"),
}


@pytest.mark.tiers(quick=["shifted"], slow=["everyone"])
@pytest.mark.parametrize("run", RUNS)
def test_a_run_is_its_numpy_program(run):
    sampler, name, option, first = RUNS[run]
    problem = logistic()
    trace = t.run(t.FedNl(sampler, CODECS[name], option, first=first), problem, rounds=ROUNDS, seed=3)
    *_, (x, _) = program(problem, cohorts(sampler, problem, 3, ROUNDS), name, option, first, np.zeros(D))
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


def lipschitz(problem) -> float:
    """L: a row's Hessian s(a.x) a a' changes by max |s'| |a|^3 at most, s' being at most 1 / (6 sqrt 3)."""
    norms = np.linalg.norm(problem.rows[0], axis=1) ** 3
    return max(norms[a:b].mean() for a, b in zip(problem.offsets[:-1], problem.offsets[1:], strict=True)) / (6 * np.sqrt(3))


@cache
def conditioned(mu: float):
    """`logistic` with another regulariser: its condition number is of the order 1 / mu."""
    return replace(logistic(), mu=mu)


ALPHA = {"rank-1": 1 / D, "top-4": 4 / SIZE, "zero": 0.0}


@pytest.mark.parametrize("mu", [1e-1, 1e-4])
@pytest.mark.parametrize("name", CODECS)
def test_a_close_start_converges_at_the_theorems_rate_whatever_the_conditioning(name, mu):
    """Theorem 3.6: |x_t - x*|^2 halves in each round, and the potential with the errors of the Hessians falls by 1 - A."""
    problem, alpha = conditioned(mu), ALPHA[name]
    best, constant = optimum(problem), lipschitz(problem)
    a, b = (alpha / 4, 6 / alpha - 7 / 2) if alpha else (0, 0)
    away = mu * min(np.sqrt(a / (8 * b)) if alpha else np.inf, 1 / np.sqrt(8)) / constant
    start = best + away * np.ones(D) / np.sqrt(D)
    trace = t.run(t.FedNl(t.Full(), CODECS[name], mu=mu), problem, rounds=8, start=start)
    states = list(program(problem, 8 * [everyone(problem)], name, "I", "hessian", start))
    np.testing.assert_allclose(trace.x, states[-1][0], rtol=0, atol=1e-12)
    at_best = np.array([client_hessian(problem, i, best) for i in range(problem.clients)])
    distance = np.array([np.sum((x - best) ** 2) for x, _ in states])
    error = np.array([shares(problem) @ np.sum((learned - at_best) ** 2, axis=(1, 2)) for _, learned in states])
    potential = error + 6 * b * constant**2 * distance
    assert error[0] <= mu**2 / 8
    rounding = 1e-26
    assert np.all(distance <= 0.5 ** np.arange(9) * distance[0] + rounding)
    if alpha:
        assert np.all(potential[1:] <= (1 - min(a, 1 / 3)) * potential[:-1] + rounding)
        assert error[-1] < error[0] / 2


def test_learning_the_hessian_makes_the_rate_superlinear():
    """From a far start, the last steps of FedNL contract by less and less; Newton-Zero contracts by the same factor."""
    problem, best = conditioned(1e-2), optimum(conditioned(1e-2))
    factors = {}
    for name, codec in CODECS.items():
        draws = 40 * [everyone(problem)]
        xs = [x for x, _ in program(problem, draws, name, "I", "hessian", np.zeros(D))]
        trace = t.run(t.FedNl(t.Full(), codec), problem, rounds=5)
        np.testing.assert_allclose(trace.x, xs[5], rtol=0, atol=1e-11)
        away = np.array([np.linalg.norm(x - best) for x in xs])
        away = away[: np.argmax(away < 1e-11)] if np.any(away < 1e-11) else away
        factors[name] = away[1:] / away[:-1]
    for name in ("rank-1", "top-4"):
        assert factors[name][-1] < factors[name][1] / 5
    assert factors["zero"][-1] == pytest.approx(factors["zero"][-2], rel=1e-2)


@pytest.mark.parametrize("rank", [1, 2])
def test_eigenpairs_are_the_nearest_matrix_of_that_rank(rank):
    made = np.random.default_rng(rank).normal(size=(6, 6))
    matrix = made + made.T
    x = triangle(jnp.asarray(matrix))
    np.testing.assert_allclose(symmetric(x), matrix, atol=1e-15)
    assert float(jnp.linalg.norm(x)) == pytest.approx(np.linalg.norm(matrix))
    codec = C.Eigenpairs(rank=rank)
    coded = round_trip(codec)(x, None)
    values = np.sort(np.abs(np.linalg.eigvalsh(matrix)))[::-1]
    left = float(jnp.sum((x - coded) ** 2))
    assert np.linalg.matrix_rank(symmetric(coded)) == rank
    assert left == pytest.approx(np.sum(values[rank:] ** 2))
    assert left <= (1 - codec.contraction(x.size)) * np.sum(matrix**2)
    assert payload(codec.encode(x, None)) == 8 * rank * 7


def test_other_arrays_travel_whole():
    codec, x = C.Eigenpairs(rank=2), jax.random.normal(jax.random.key(0), (3, 4))
    for array in (x, x.reshape(-1)[:6]):
        np.testing.assert_array_equal(round_trip(codec)(array, None), array)
        assert codec.contraction(array.size) == 1


MISTAKES = {
    "zero": (lambda: t.FedNl(t.Full(), first="zero"), small, "take first = 'hessian'"),
    "shift": (lambda: t.FedNl(t.Full(), option="II"), small, "option = 'I'"),
    "mu": (lambda: t.FedNl(t.Full()), lambda: conditioned(0.0), "needs mu"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name):
    make, problem, sentence = MISTAKES[name]
    with pytest.raises(t.UserError, match=sentence):
        t.run(make(), problem(), rounds=1)
