"""The bounds of FedDCD's theorems for bound algorithms on a problem, with the constants of the problem and the sampler."""

import numpy as np

from turnout.core.errors import UserError
from turnout.problems import Chain
from turnout.problems.base import Problem
from turnout.samplers import Full, Nice, Sampler
from turnout.theory import feddcd
from turnout.theory.bounds import Bound
from turnout.theory.constants import DesignConstants
from turnout.theory.designs import Coins, design, inclusion
from turnout.theory.feddcd_spectral_gap import all_equal, expected_projection, spectral_gap


def feddcd_bound(
    problem: Problem,
    constants: DesignConstants,
    sampler: Sampler,
    lr: float,
    convexity,
    *,
    delta: float | None = None,
    takes_mean: bool = True,
) -> Bound:
    """Return the bound on the mean w of a cohort's models by Theorem 4.1 of FedDCD, or by Theorem 5.2 with `delta`.

    With a_i = n lambda_i alpha_i and q_i = E[1{i in S} a_i / sum_S a_j], |w_i - x*|^2 is at most 2 / alpha_i times i's part of
    G - G*. So E|w - x*|^2 <= 2 max_i (q_i / a_i) E[G - G*], and G_0 - G* <= (n/2) sum_i lambda_i |y*_i|^2 / alpha_i.

    Args:
        problem: The problem.
        constants: Its constants under `sampler`.
        sampler: Bound sampler.
        lr: Step size of the dual variables.
        convexity: alpha, one number or [n].
        delta: Accuracy of the local solutions; None means exact.
        takes_mean: Whether the parameters handed out are a cohort's mean.

    Raises:
        UserError: If no theorem is about these; the sentence says what to change.
    """
    _check_convexity(convexity, constants)
    population = problem.population
    if isinstance(design(sampler, population), Coins):
        raise UserError("the theorems of FedDCD are about cohorts that are never empty: take a sampler such as nice")
    alpha = np.broadcast_to(np.asarray(convexity, float), problem.clients)
    weights = problem.clients * population.lambdas
    if not takes_mean and not all_equal(weights * alpha):
        raise UserError("the bound is on the mean of a cohort's models where lambda_i mu_i differ: take answer = 'mean'")
    projection = expected_projection(sampler, population, weights * alpha)
    r, ratio = spectral_gap(projection, weights * alpha), float(np.min(alpha / constants.smoothness))
    largest = np.max((inclusion(sampler, population) - np.diag(projection)) / (weights * alpha))
    start = float(largest * np.sum(weights * constants.gradient_norms2 / alpha))
    if delta is None:
        return _bound("4.1 of FedDCD", feddcd.feddcd_rate(r, ratio, 1.0, float(lr)), start, constants)
    if not isinstance(sampler, (Nice, Full)) or not all_equal(alpha) or not all_equal(weights):
        raise UserError("Theorem 5.2 of FedDCD is about uniform cohorts of equal clients: leave delta out")
    allowed = feddcd.inexactness(r, ratio, 1.0)
    if lr != feddcd.INEXACT_LR or delta > allowed:
        raise UserError(
            f"Theorem 5.2 of FedDCD is about lr = {feddcd.INEXACT_LR:g} and delta of at most {allowed:.6g}: use these values"
        )
    return _bound("5.2 of FedDCD", feddcd.inexact_rate(r, ratio, 1.0), feddcd.INEXACT_CONSTANT * start, constants)


def accfeddcd_bound(
    problem: Problem,
    constants: DesignConstants,
    sampler: Sampler,
    lr: float,
    convexity: float,
    smoothness: float | None,
    fraction: float,
) -> Bound:
    """Return the bound on the mean w of a cohort's models by Theorem 6.1 of FedDCD.

    Args:
        problem: The problem.
        constants: Its constants under `sampler`.
        sampler: Bound sampler.
        lr: Factor of the dual steps.
        convexity: alpha.
        smoothness: beta.
        fraction: r.

    Raises:
        UserError: If the theorem is not about these; the sentence says what to change.
    """
    _check_convexity(convexity, constants)
    alpha, beta = float(convexity), float(smoothness or 0)
    if not all_equal(problem.population.lambdas):
        raise UserError("Theorem 6.1 of FedDCD is about clients of equal weight: take weights = 'uniform'")
    equal = np.ones(problem.clients)
    r = spectral_gap(expected_projection(sampler, problem.population, equal), equal)
    if lr != 1 or beta < constants.smoothness.max() * (1 - 1e-12) or not np.isclose(fraction, r):
        raise UserError(
            f"Theorem 6.1 of FedDCD is about lr = 1, smoothness of at least L_i and fraction = {r:.6g}: leave these keys out"
        )
    start = feddcd.accfeddcd_constant(r, alpha, beta) * constants.gradient_norms2.mean() / alpha**2
    dual = feddcd.accfeddcd_dual_constant(r, alpha, beta)
    return _bound("6.1 of FedDCD", feddcd.accfeddcd_rate(r, alpha, beta), float(start), constants, dual)


def lower_bound_of(algorithm, problem: Problem) -> feddcd.LowerBound | None:
    """Return the lower bound of Theorem 7.1 for a bound algorithm on a chain; None for other problems and draws.

    Algorithms that ask a cohort again have none, as they find more than one coordinate an exchange.

    Args:
        algorithm: The algorithm, bound to the problem.
        problem: The problem.
    """
    sampler, n = algorithm.sampler, problem.clients
    if not isinstance(problem, Chain) or not isinstance(sampler, (Nice, Full)) or algorithm.cohorts_per_round is None:
        return None
    size = sampler.size if isinstance(sampler, Nice) else n
    return feddcd.LowerBound(n, problem.length, problem.ratio, float(problem.mu), size, algorithm.cohorts_per_round)


def _check_convexity(convexity, constants: DesignConstants) -> None:
    if np.any(np.asarray(convexity) > constants.convexity * (1 + 1e-12)):
        raise UserError("the theorems of FedDCD need a convexity of at most mu_i: leave it out")


def _bound(theorem: str, rate: float, start: float, constants: DesignConstants, dual: float = 1.0) -> Bound:
    """The bound rate^(t - 1) start, as round t hands out the models that its clients have after t - 1 rounds."""
    return Bound(theorem, rate, 0.0, max(start / rate, constants.distance2), dual)
