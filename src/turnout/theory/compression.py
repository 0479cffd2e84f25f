"""Step sizes of algorithms with a codec, from the constants of the codec, of the cohorts and of the f_i.

All f_i are L_i-smooth; L_bar = sum_i lambda_i L_i, L~^2 = sum_i lambda_i L_i^2 and mu = sum_i lambda_i mu_i, or 0 if that is
negative. The papers have lambda_i = 1/n, and L of f in the place of L_bar >= L.
"""

import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from turnout.codecs.base import Codec
from turnout.codecs.trees import contraction_of, parts_of, variance_of
from turnout.core.errors import UserError
from turnout.problems.base import Problem
from turnout.samplers import Full, Independent, Nice, Sampler, WithReplacement
from turnout.theory.designs import inclusion


class Smoothness(NamedTuple):
    """Constants of the f_i.

    Args:
        convexity: mu.
        mean: L_bar.
        quadratic_mean: L~.
        largest: max_i L_i.
    """

    convexity: float
    mean: float
    quadratic_mean: float
    largest: float


def smoothness_of(problem: Problem) -> Smoothness:
    """Return the constants of the clients of `problem`.

    Raises:
        UserError: Where they are not known.
    """
    constants, shares = problem.constants(), np.asarray(problem.population.shares)
    if constants is None:
        raise UserError(f"no L_i of {type(problem).__name__} is known, so no step size follows: give lr")
    mu, each = np.asarray(constants.convexity), np.asarray(constants.smoothness)
    return Smoothness(max(0.0, float(shares @ mu)), float(shares @ each), math.sqrt(float(shares @ each**2)), float(np.max(each)))


def ef21_step(problem: Problem, sampler: Sampler, codec: Codec, trigger: float = 0.0) -> float:
    """Return min {1 / (L_bar + L~ sqrt(2 b / theta)), theta / (2 mu)}, the step of EF21 (Richtarik et al., 2021, Theorem 2).

    theta = 1 - sqrt(1 - a), b = max {beta, trigger} and beta = (1 - a) / theta. With full participation a is the codec's alpha.
    A client that takes part with probability p_i applies C then and 0 else, which is a contraction with p_i alpha:
    a = alpha min_i p_i. Then E[f(x_t) - f*] + (lr / theta) E[G_t] falls by 1 - lr mu a round,
    G = sum_i lambda_i |g_i - grad f_i(x)|^2.

    Args:
        problem: The problem.
        sampler: Bound sampler.
        codec: C.
        trigger: zeta of CLAG, 0 for EF21.

    Examples:
        >>> import turnout as t
        >>> from turnout.theory.compression import ef21_step
        >>> problem = t.Quadratic.random(clients=8, dimension=4, seed=0)
        >>> round(ef21_step(problem, t.Full(), t.codecs.Identity()), 3)
        0.1
    """
    known = smoothness_of(problem)
    alpha = contraction_of(codec, _start(problem)) * float(np.min(_inclusion(sampler, problem)))
    theta = 1 - math.sqrt(1 - alpha)
    root = math.sqrt(2 * max((1 - alpha) / theta, trigger) / theta)
    return min(1 / (known.mean + known.quadratic_mean * root), _half(theta, known.convexity))


class EfBvSteps(NamedTuple):
    """The numbers of EF-BV.

    Args:
        lr: Step size.
        rate: Rate of the memories.
        nu: Weight of the new differences.
    """

    lr: float
    rate: float
    nu: float


def efbv_steps(
    problem: Problem,
    sampler: Sampler,
    codec: Codec,
    lr: float | None = None,
    rate: float | None = None,
    nu: float | None = None,
) -> EfBvSteps:
    """Return lr, rate and nu of EF-BV (Condat et al., 2022, Theorem 1), with those of the theorem where they are None.

    lr is 1 / (L_bar + L~ sqrt(r_av) / (sqrt((1 + r) / 2) - sqrt(r))), with the factors r and r_av of `efbv_factors`.

    Args:
        problem: The problem.
        sampler: Bound sampler.
        codec: C.
        lr: Step size.
        rate: Rate of the memories; None means 1 / (1 + omega), or 1 where C is biased.
        nu: Weight of the new differences; None means 1 / (1 + v), or min_i p_i where C is biased.
    """
    like, p = _start(problem), float(np.min(_inclusion(sampler, problem)))
    unbiased = all(codec.variance(part.size) is not None for part in parts_of(codec, like).parts)
    if rate is None:
        rate = 1 / (1 + variance_of(codec, like)) if unbiased else 1.0
    if nu is None:
        nu = 1 / (1 + cohort_variance(problem, sampler, codec)) if unbiased else p
    if lr is None:
        known, (r, average) = smoothness_of(problem), efbv_factors(problem, sampler, codec, rate, nu)
        lr = 1 / (known.mean + known.quadratic_mean * math.sqrt(average) / (math.sqrt((1 + r) / 2) - math.sqrt(r)))
    return EfBvSteps(lr, rate, nu)


def efbv_factors(problem: Problem, sampler: Sampler, codec: Codec, rate: float, nu: float) -> tuple[float, float]:
    """Return r and r_av of EF-BV: what one round leaves of the errors of the memories, and of that of their mean, in squares.

    r = 1 - p + p ((1 - rate)^2 + rate^2 omega) and r_av = (1 - nu)^2 + nu^2 v for an unbiased C, p = min_i p_i and v
    `cohort_variance`; r = 1 - p rate alpha and r_av = 1 - nu alpha for a contraction, rate <= 1 and nu <= p.

    Args:
        problem: The problem.
        sampler: Bound sampler.
        codec: C.
        rate: Rate of the memories.
        nu: Weight of the new differences.

    Raises:
        UserError: Where r is not below 1, or nu is too large for a contraction, so that no step size follows.
    """
    like, p = _start(problem), float(np.min(_inclusion(sampler, problem)))
    if all(codec.variance(part.size) is not None for part in parts_of(codec, like).parts):
        r = 1 - p + p * ((1 - rate) ** 2 + rate**2 * variance_of(codec, like))
        average = (1 - nu) ** 2 + nu**2 * cohort_variance(problem, sampler, codec)
    else:
        alpha = contraction_of(codec, like)
        if nu > p * (1 + 1e-9):
            raise UserError(f"no step size is known for {type(codec).__name__} and nu = {nu:g} above min_i p_i = {p:g}: give lr")
        r, average = 1 - p * rate * alpha, 1 - nu * alpha
    if r >= 1:
        raise UserError(f"no step size is known for rate = {rate:g}, with which errors of the memories do not fall: give lr")
    return r, average


def diana_step(problem: Problem, sampler: Sampler, codec: Codec) -> float:
    """Return 1 / (L (1 + 2 v + 4 v p_max / p_min)), the step of DIANA for convex f_i, L = max_i L_i.

    v is `cohort_variance`, omega / n with full participation and equal weights, where the step is 1 / (L (1 + 6 omega / n)).
    With steps 1 / (1 + omega) of the memory, E|x_t - x*|^2 + (4 v / (alpha p_min)) lr^2 E[S_t] falls by
    max {1 - lr mu, 1 - alpha p_min / 2} a round, alpha = 1 / (1 + omega), S = sum_i lambda_i |h_i - grad f_i(x*)|^2.

    Args:
        problem: The problem.
        sampler: Bound sampler.
        codec: C.
    """
    p, v = _inclusion(sampler, problem), cohort_variance(problem, sampler, codec)
    return 1 / (smoothness_of(problem).largest * (1 + 2 * v + 4 * v * float(np.max(p) / np.min(p))))


class AdianaSteps(NamedTuple):
    """The numbers of ADIANA.

    Args:
        lr: Step size.
        probability: p, the probability that the anchor moves.
        mu: Strong convexity of f.
    """

    lr: float
    probability: float
    mu: float


def adiana_steps(
    problem: Problem,
    sampler: Sampler,
    codec: Codec,
    lr: float | None = None,
    probability: float | None = None,
    mu: float | None = None,
) -> AdianaSteps:
    """Return lr, p and mu of ADIANA (Li et al., 2020, Theorem 5, with the constants of `Adiana`), those given as they are.

    With v = `cohort_variance` and alpha = min_i p_i / (1 + omega), p = min {1, (alpha / 4) max {1, sqrt(1 / (8 v)) - 1}} and
    lr = min {1 / (2 L), 1 / (16 v L (1 + 4 p / alpha)^2)}, L = max_i L_i.

    Args:
        problem: The problem.
        sampler: Bound sampler.
        codec: C.
        lr: Step size.
        probability: p.
        mu: Strong convexity of f.

    Raises:
        UserError: Where the codec is biased, or what follows is not known.
    """
    v = cohort_variance(problem, sampler, codec)
    alpha = float(np.min(_inclusion(sampler, problem))) / (1 + variance_of(codec, _start(problem)))
    if mu is None:
        mu = smoothness_of(problem).convexity
        if mu <= 0:
            raise UserError(f"no mu > 0 of {type(problem).__name__} is known, so no steps follow: give mu")
    if probability is None:
        probability = min(1.0, alpha / 4 * max(1.0, math.sqrt(1 / (8 * v)) - 1)) if v > 0 else 1.0
    if lr is None:
        lr = 1 / (smoothness_of(problem).largest * max(2.0, 16 * v * (1 + 4 * probability / alpha) ** 2))
    return AdianaSteps(lr, probability, mu)


def gradskip_plus_step(problem: Problem, codec: Codec, own: Codec, probability: float) -> float:
    """Return 1 / (L (1 + (1 / s^2 - 1) W / (1 + W))), s = p / (1 + omega), the step of GradSkip+ (Maranjyan et al., 2022).

    Args:
        problem: The problem.
        codec: C of communications, with variance omega.
        own: C of the clients' own differences, with variance W.
        probability: p.
    """
    like = _start(problem)
    s, share = probability / (1 + variance_of(codec, like)), 1 - 1 / (1 + variance_of(own, like))
    return 1 / (smoothness_of(problem).largest * (1 + (1 / s**2 - 1) * share))


def randprox_step(problem: Problem, sampler: Sampler, codec: Codec, gamma: float) -> float:
    """Return gamma (1 + omega max_i lambda_i / p_i), the least step of RandProx's proximal points (the docstring of `RandProx`).

    Args:
        problem: The problem.
        sampler: Bound sampler.
        codec: C.
        gamma: The step size.
    """
    largest = float(np.max(np.asarray(problem.population.shares) / _inclusion(sampler, problem)))
    return gamma * (1 + variance_of(codec, _start(problem)) * largest)


def marina_step(problem: Problem, sampler: Sampler, codec: Codec, probability: float) -> float:
    """Return min {1 / (L_bar + L~ sqrt(2 (1 - p) v / p)), p / (2 mu)}, the step of MARINA (Gorbunov et al., 2021).

    v is `cohort_variance`: omega / n with full participation and equal weights (MARINA), (1 + omega) / r for r of the n clients
    (PP-MARINA). E[f(x_t) - f*] + (lr / p) E|g_t - grad f(x_t)|^2 falls by 1 - lr mu a round.

    Args:
        problem: The problem.
        sampler: Bound sampler.
        codec: C.
        probability: p.
    """
    known, v = smoothness_of(problem), cohort_variance(problem, sampler, codec)
    root = math.sqrt(2 * (1 - probability) * v / probability)
    return min(1 / (known.mean + known.quadratic_mean * root), _half(probability, known.convexity))


def dasha_step(problem: Problem, sampler: Sampler, codec: Codec) -> float:
    """Return min {1 / (L_bar + L~ sqrt(2 T)), min {a, b} / (2 mu)}, the step of DASHA and DASHA-PP in the docstring of `Dasha`.

    T = W omega (12 omega + 2) with full participation, W = max_i lambda_i; else, with p = min_i p_i, a = p / (2 omega + 1),
    b = p / (2 - p) and s = (1 - p) / p, T = (24 omega / (p a)) W (1 + 4 b s) + (4 W / p) (1 / b + 4 s).

    Args:
        problem: The problem.
        sampler: Bound sampler, one of full, nice or independent.
        codec: C.

    Raises:
        UserError: Where the codec is biased, or no bound is known for the sampler.
    """
    if not isinstance(sampler, Full | Nice | Independent):
        raise UserError(f"no step size is known for Dasha and cohorts of {type(sampler).__name__}: give lr")
    known, omega = smoothness_of(problem), variance_of(codec, _start(problem))
    p, weight = float(np.min(_inclusion(sampler, problem))), float(np.max(problem.population.shares))
    a, b, s = p / (2 * omega + 1), p / (2 - p), (1 - p) / p
    if isinstance(sampler, Full):
        total = weight * omega * (12 * omega + 2)
    else:
        total = 24 * omega / (p * a) * weight * (1 + 4 * b * s) + 4 * weight / p * (1 / b + 4 * s)
    return min(1 / (known.mean + known.quadratic_mean * math.sqrt(2 * total)), _half(min(a, b), known.convexity))


def tamuna_steps(problem: Problem, copies: int, lr: float | None = None, probability: float | None = None) -> tuple[float, float]:
    """Return lr and p of TAMUNA, with 2 / (L + mu) and the p with p^2 chi r = 1 - (1 - lr mu)^2, at most 1, where they are None.

    L = max_i L_i, mu = min_i mu_i, chi = n (s - 1) / (s (n - 1)) and r = (s - 1) / (n - 1): then the terms of the rate
    max {(1 - lr mu)^2, (1 - lr L)^2, 1 - p^2 chi r} of a local step are equal where p < 1.

    Args:
        problem: The problem.
        copies: s.
        lr: Step size of the clients.
        probability: p.

    Raises:
        UserError: Where the f_i are not known to be strongly convex.
    """
    n, (mu, largest) = problem.clients, _curvatures(problem, "lr and probability")
    lr = 2 / (largest + mu) if lr is None else lr
    share = n * (copies - 1) ** 2 / (copies * (n - 1) ** 2)
    fall = max(0.0, 1 - (1 - lr * mu) ** 2)
    return lr, min(1.0, math.sqrt(fall / share)) if probability is None else probability


class LoCoDlSteps(NamedTuple):
    """The numbers of LoCoDL.

    Args:
        lr: Step size.
        probability: p, the probability of a communication after a local step.
        split: Curvature of g.
    """

    lr: float
    probability: float
    split: float


def locodl_steps(
    problem: Problem, codec: Codec, lr: float | None = None, probability: float | None = None, split: float | None = None
) -> LoCoDlSteps:
    """Return lr, p and the curvature of g of LoCoDL (Condat et al., 2025), with the defaults where they are None.

    g(x) = (split / 2) |x|^2 has half the least mu_i of the F_i = f_i + g. Then mu = min_i (mu_i - split, split) and
    L = max_i (L_i - split, split) hold for all f_i and g, lr = 2 / (L + mu), and p is the one with
    p^2 / ((1 + v) (1 + 2 omega)) = 1 - (1 - lr mu)^2, at most 1, v being `cohort_variance`: the terms of the rate are equal.

    Args:
        problem: The problem.
        codec: C.
        lr: Step size.
        probability: p.
        split: Curvature of g.

    Raises:
        UserError: Where the codec is biased, or the F_i are needed and not known to be strongly convex.
    """
    omega, v = variance_of(codec, _start(problem)), cohort_variance(problem, Full(), codec)
    if lr is not None and probability is not None and split is not None:
        return LoCoDlSteps(lr, probability, split)
    least, largest = _curvatures(problem, "lr, probability and split")
    split = least / 2 if split is None else split
    mu, smooth = min(least - split, split), max(largest - split, split)
    lr = 2 / (smooth + mu) if lr is None else lr
    fall = max(0.0, 1 - (1 - lr * mu) ** 2)
    p = min(1.0, math.sqrt(fall * (1 + v) * (1 + 2 * omega))) if probability is None else probability
    return LoCoDlSteps(lr, p, split)


def cohort_variance(problem: Problem, sampler: Sampler, codec: Codec) -> float:
    """Return v with E|sum_{i in S} (lambda_i / p_i) C(v_i) - sum_i lambda_i v_i|^2 <= v sum_i lambda_i |v_i|^2.

    v = max_i lambda_i omega where all p_i = 1, and max_i (lambda_i / p_i) (1 + omega) otherwise.

    Args:
        problem: The problem.
        sampler: Bound sampler, one of full, nice, independent or with replacement.
        codec: C.

    Raises:
        UserError: Where the codec is biased, or no bound is known for the sampler.
    """
    if not isinstance(sampler, Full | Nice | Independent | WithReplacement):
        raise UserError(f"no step size is known for a codec and cohorts of {type(sampler).__name__}: give lr")
    omega, p = variance_of(codec, _start(problem)), _inclusion(sampler, problem)
    shares = np.asarray(problem.population.shares)
    return float(np.max(shares / p)) * (omega if np.all(p == 1) else 1 + omega)


def _inclusion(sampler: Sampler, problem: Problem) -> Float[np.ndarray, " n"]:
    return np.asarray(inclusion(sampler, problem.population))


def _curvatures(problem: Problem, names: str) -> tuple[float, float]:
    """Return min_i mu_i, which must be positive, and max_i L_i; `names` are what to give where they are not known."""
    constants = problem.constants()
    mu = 0.0 if constants is None else float(np.min(constants.convexity))
    if mu <= 0:
        raise UserError(f"no mu_i > 0 of {type(problem).__name__} are known, so no step size follows: give {names}")
    return mu, float(np.max(constants.smoothness))


def _half(rate: float, mu: float) -> float:
    return rate / (2 * mu) if mu > 0 else math.inf


def _start(problem: Problem):
    return jax.eval_shape(problem.start, jax.random.key(0))
