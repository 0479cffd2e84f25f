"""The bounds of FedDCD's theorems for a configured run: their constants, or one sentence on why none is about it."""

from typing import NamedTuple

import numpy as np

from turnout.algorithms import AccFedDcd, FedAvgSppm, FedDcd, FedProxSppm, Sppm
from turnout.algorithms.dual import DualMethod
from turnout.core.errors import UserError
from turnout.problems import Chain
from turnout.problems.base import Problem
from turnout.samplers import Full, Nice
from turnout.theory import feddcd as dual
from turnout.theory.cohort_mean_weights import client_weights
from turnout.theory.constants import DesignConstants
from turnout.theory.designs import Coins, design, inclusion
from turnout.theory.feddcd_spectral_gap import expected_projection, pairing, same


class Decay(NamedTuple):
    """E|w - x*|^2 <= rate^t first for the mean w of a cohort's models after t rounds, by `theorem`."""

    theorem: str
    rate: float
    first: float


def lower_of(algorithm, problem: Problem) -> dual.LowerBound | None:
    """Return what Theorem 7.1 leaves to a bound algorithm on a chain; None where another problem or draw is played.

    Nor is it about algorithms that ask a cohort again, by which more coordinates are found than one an exchange.
    """
    sampler = algorithm.sampler
    asks_again = isinstance(algorithm, (Sppm, FedAvgSppm, FedProxSppm))
    if not isinstance(problem, Chain) or not isinstance(sampler, (Nice, Full)) or asks_again:
        return None
    n = problem.clients
    size, cohorts = sampler.size if isinstance(sampler, Nice) else n, 2 if isinstance(algorithm, AccFedDcd) else 1
    return dual.LowerBound(n, problem.length, problem.ratio, float(problem.mu), size, cohorts)


def decay_of(algorithm: DualMethod, problem: Problem, constants: DesignConstants) -> Decay:
    """Return what is promised of a bound dual method; its local problems are taken to be solved as the theorem wants."""
    if not isinstance(algorithm, (FedDcd, AccFedDcd)):
        raise UserError(f"no theorem here bounds |x - x*| for {type(algorithm).__name__}")
    if np.any(np.asarray(algorithm.convexity) > constants.convexity * (1 + 1e-12)):
        raise UserError("the theorems of FedDCD need a convexity of at most mu_i: leave it out")
    if isinstance(algorithm, AccFedDcd):
        return _accelerated(algorithm, problem, constants)
    return _plain(algorithm, problem, constants)


def _plain(algorithm: FedDcd, problem: Problem, constants: DesignConstants) -> Decay:
    """With a_i = n lambda_i alpha_i and q_i = E[1{i in S} a_i / sum_S a_j], |w_i - x*|^2 <= 2 / alpha_i times i's part of G - G*.

    So E|w - x*|^2 <= 2 max_i (q_i / a_i) E[G - G*], and G_0 - G* <= (n/2) sum_i lambda_i |y*_i|^2 / alpha_i.
    """
    sampler, population = algorithm.sampler, problem.population
    if isinstance(design(sampler, population), Coins):
        raise UserError("the theorems of FedDCD are about cohorts that are never empty: take a sampler without coins")
    alpha = np.broadcast_to(np.asarray(algorithm.convexity, float), problem.clients)
    weights = problem.clients * client_weights(population)
    if algorithm.answer == "client" and not same(weights * alpha):
        raise UserError("the bound is on the mean of a cohort's models where lambda_i mu_i differ: take answer = 'mean'")
    projection = expected_projection(sampler, population, weights * alpha)
    r, ratio = pairing(projection, weights * alpha), float(np.min(alpha / constants.smoothness))
    most = np.max((inclusion(sampler, population) - np.diag(projection)) / (weights * alpha))
    first = float(most * np.sum(weights * constants.gradient_norms2 / alpha))
    if algorithm.delta is None:
        return Decay("4.1 of FedDCD", dual.feddcd_rate(r, ratio, 1.0, float(algorithm.lr)), first)
    if not isinstance(sampler, (Nice, Full)) or not same(alpha) or not same(weights):
        raise UserError("Theorem 5.2 of FedDCD is about uniform cohorts of equal clients: leave delta out")
    allowed = dual.inexactness(r, ratio, 1.0)
    if algorithm.lr != dual.INEXACT_LR or algorithm.delta > allowed:
        raise UserError(f"Theorem 5.2 of FedDCD is about lr = {dual.INEXACT_LR:g} and delta of at most {allowed:.6g}: take these")
    return Decay("5.2 of FedDCD", dual.inexact_rate(r, ratio, 1.0), dual.INEXACT_CONSTANT * first)


def _accelerated(algorithm: AccFedDcd, problem: Problem, constants: DesignConstants) -> Decay:
    alpha, beta = float(algorithm.convexity), float(algorithm.smoothness or 0)
    if not same(client_weights(problem.population)):
        raise UserError("Theorem 6.1 of FedDCD is about clients of equal weight: take weights = 'uniform'")
    r = pairing(expected_projection(algorithm.sampler, problem.population, np.ones(problem.clients)), np.ones(problem.clients))
    if algorithm.lr != 1 or beta < constants.smoothness.max() * (1 - 1e-12) or not np.isclose(algorithm.fraction, r):
        raise UserError(
            f"Theorem 6.1 of FedDCD is about lr = 1, smoothness of at least L_i and fraction = {r:.6g}: leave them out"
        )
    first = dual.accfeddcd_constant(r, alpha, beta) * constants.gradient_norms2.mean() / alpha**2
    return Decay("6.1 of FedDCD", dual.accfeddcd_rate(r, alpha, beta), float(first))
