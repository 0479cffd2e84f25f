"""Quadratics whose clients differ little, and what tests of proximal methods on them need."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import turnout as t
from turnout.client_solvers import LocalSolver, Solution
from turnout.core.seeds import Seeds
from turnout.runs.session import Session
from turnout.runs.setup import bind

CLIENTS, DIMENSION = 8, 4
EQUAL = np.full(CLIENTS, 1 / CLIENTS)
SHARES = np.array([3.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 2.0]) / 12


@t.record
class Exact(LocalSolver):
    """One Newton step, which is exact on quadratics."""

    def minimise(self, client, tilt, start, delta=None, convexity=None):
        weight, centre = (0.0, start) if tilt.centre is None else (tilt.weight, tilt.centre)
        slope = client.grad(start) - (0.0 if tilt.linear is None else tilt.linear) + weight * (start - centre)
        return Solution(start - jnp.linalg.solve(client.hessian(start) + weight * jnp.eye(start.size), slope), 2, 0)


@cache
def similar(equal: bool = True, share: float = 0.2) -> t.Quadratic:
    """Eigenvalues from 1 to 50; a `share` of each A_i is the client's own. Minimisers of the f_i are far apart."""
    made = t.Quadratic.random(CLIENTS, DIMENSION, 1.0, 50.0, seed=0)
    matrices = (1 - share) * made.rows[0].mean(0) + share * made.rows[0]
    return t.Quadratic.of(matrices, made.rows[1], weights=EQUAL if equal else SHARES)


def flat(curvature: float) -> t.Quadratic:
    """Clients that differ much, but for the first coordinate, along which all have this `curvature`."""
    matrices, vectors = (part.copy() for part in similar(share=0.8).rows)
    matrices[:, 0], matrices[:, :, 0], matrices[:, 0, 0] = 0, 0, curvature
    return t.Quadratic.of(matrices, vectors)


def weights(problem: t.Quadratic) -> np.ndarray:
    """lambda_i [n]."""
    return np.asarray(problem.population.shares)


def optimum(problem: t.Quadratic) -> np.ndarray:
    return np.linalg.solve(np.tensordot(weights(problem), problem.rows[0], 1), weights(problem) @ problem.rows[1])


def slope(problem: t.Quadratic, i: int, x: np.ndarray) -> np.ndarray:
    """grad f_i(x)."""
    return problem.rows[0][i] @ x - problem.rows[1][i]


def full_slope(problem: t.Quadratic, x: np.ndarray) -> np.ndarray:
    """grad f(x)."""
    return weights(problem) @ (problem.rows[0] @ x - problem.rows[1])


def gap(problem: t.Quadratic, x: np.ndarray) -> float:
    """f(x) - f(x*)."""
    away = x - optimum(problem)
    return float(away @ np.tensordot(weights(problem), problem.rows[0], 1) @ away / 2)


def least_curvature(problem: t.Quadratic) -> float:
    """mu of f."""
    return float(np.linalg.eigvalsh(np.tensordot(weights(problem), problem.rows[0], 1))[0])


def tilted(problem: t.Quadratic, i: int, linear, weight: float, centre) -> np.ndarray:
    """argmin_w f_i(w) - <w, linear> + (weight / 2) |w - centre|^2."""
    matrices, vectors = problem.rows
    return np.linalg.solve(matrices[i] + weight * np.eye(DIMENSION), vectors[i] + linear + weight * centre)


@jax.jit
def draw_of(sampler, key, population):
    """The cohort that a fitted sampler draws; compiled, which makes it fast."""
    return sampler.draw(None, key, population)


def cohort(sampler: t.Sampler, problem: t.Problem, seed: int, number: int, draw: int = 0) -> tuple[list[int], np.ndarray]:
    """The clients of a draw of a round, and their lambda_i as shares of the cohort's."""
    drawn = draw_of(bind(sampler, problem), Seeds.of(seed).draw(number, draw), problem.population)
    active = np.asarray(drawn.active)
    shares = np.asarray(drawn.share)[active]
    return [int(i) for i in np.asarray(drawn.ids)[active]], shares / shares.sum() if shares.size else shares


def servers(algorithm: t.Algorithm, problem: t.Problem, rounds: int, seed: int = 0, **options) -> list:
    """The server's states after 0, 1, ..., `rounds` rounds."""
    session = Session(algorithm, problem, seeds=Seeds.of(seed), rounds=rounds, every=1, **options)
    states = []
    for _ in range(rounds + 1):
        session.step(1)
        # The engine reuses the memory of a state for the next one.
        states.append(jax.tree.map(np.array, session.progress.server))
    return states
