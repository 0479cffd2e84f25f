"""The bounds of Cohort Squeeze, as functions of constants that are floats or NumPy arrays.

Distances are squared throughout. `tolerance` takes traced values too, as algorithms call it.
"""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Bound:
    """A bound E|x_t - x*|^2 <= rate^t start + neighbourhood.

    Args:
        theorem: The number of the theorem in Cohort Squeeze, or its number and its paper.
        rate: Factor of one round.
        neighbourhood: The limit as t grows.
        start: The first term at t = 0.
        dual: E[G(y) - G*] <= dual rate^t (G_0 - G*) for the dual objective G; None for primal methods.

    Examples:
        >>> from turnout.theory.bounds import Bound
        >>> Bound(theorem=1, rate=0.5, neighbourhood=0.25, start=4.0).at(2)
        1.25
    """

    theorem: int | str
    rate: float
    neighbourhood: float
    start: float
    dual: float | None = None

    def at(self, t):
        """Return the bound after t rounds, a number or an array."""
        return self.rate ** (1.0 * t) * self.start + self.neighbourhood


def theorem_1(t, gamma, mu, sigma2, distance2):
    """Return the bound of Theorem 1, for exact steps of SPPM-AS with independent draws.

    E|x_t - x*|^2 <= (1 + gamma mu)^-2t |x_0 - x*|^2 + `neighbourhood` (Cohort Squeeze, Theorem 1).

    Args:
        t: Number of rounds, or an array of them.
        gamma: Step size.
        mu: mu_AS > 0 of the design.
        sigma2: sigma^2_AS of the design.
        distance2: |x_0 - x*|^2.
    """
    return contraction(gamma, mu) ** (1.0 * t) * distance2 + neighbourhood(gamma, mu, sigma2)


def contraction(gamma, mu):
    """Return (1 + gamma mu)^-2, the factor of one step in `theorem_1`.

    Args:
        gamma: Step size.
        mu: mu_AS of the design.
    """
    return (1 + gamma * mu) ** -2.0


def neighbourhood(gamma, mu, sigma2):
    """Return gamma sigma^2 / (gamma mu^2 + 2 mu), the limit of `theorem_1` as t grows.

    Args:
        gamma: Step size.
        mu: mu_AS > 0 of the design.
        sigma2: sigma^2_AS of the design.
    """
    return gamma * sigma2 / (gamma * mu**2 + 2 * mu)


def neighbourhood_bound(gamma, mu, sigma2):
    """Return min {sigma^2 / mu^2, gamma sigma^2 / mu} >= `neighbourhood` (Cohort Squeeze, section 2.2).

    The first holds for any gamma, the second is smaller for small ones.

    Args:
        gamma: Step size.
        mu: mu_AS > 0 of the design.
        sigma2: sigma^2_AS of the design.
    """
    return np.minimum(sigma2 / mu**2, gamma * sigma2 / mu)


def complexity(epsilon: float, mu: float, sigma2: float, distance2: float) -> tuple[float, int]:
    """Return gamma and the rounds t after which `theorem_1` is at most epsilon (Cohort Squeeze, section 2.2).

    For epsilon <= sigma^2 / mu^2: gamma = epsilon mu / sigma^2, t >= (sigma^2 / (2 epsilon mu^2) + 1/2) log(2 distance2/epsilon).
    A larger epsilon takes one step, with (1 + gamma mu)^-2 distance2 = epsilon - sigma^2 / mu^2, and so does sigma = 0, where any
    larger gamma serves too. It takes no step and any gamma, here 1 / mu, if x_0 is near enough.

    Args:
        epsilon: Squared distance to reach.
        mu: mu_AS > 0 of the design.
        sigma2: sigma^2_AS of the design.
        distance2: |x_0 - x*|^2.
    """
    if distance2 <= epsilon:
        return 1 / mu, 0
    if epsilon > sigma2 / mu**2:
        return (math.sqrt(distance2 / (epsilon - sigma2 / mu**2)) - 1) / mu, 1
    rounds = (sigma2 / (2 * epsilon * mu**2) + 0.5) * math.log(2 * distance2 / epsilon)
    return epsilon * mu / sigma2, math.ceil(rounds)


def theorem_2(t, gamma, convexity, shares, gradient_norms2, distance2):
    """Return the bound of Theorem 2, for x <- (1/|S|) sum_{i in S} prox_{gamma f_i}(x).

    E|x_t - x*|^2 <= A^t |x_0 - x*|^2 + B / (1 - A), A and B being `averaged_prox` (Cohort Squeeze, Theorem 2).

    Args:
        t: Number of rounds, or an array of them.
        gamma: Step size.
        convexity: mu_i [n].
        shares: q_i [n], as `theory.cohort_mean_weights` computes them.
        gradient_norms2: |grad f_i(x*)|^2 [n].
        distance2: |x_0 - x*|^2.
    """
    a, b = averaged_prox(gamma, convexity, shares, gradient_norms2)
    return a ** (1.0 * t) * distance2 + b / (1 - a)


def averaged_prox(gamma, convexity, shares, gradient_norms2):
    """Return A = sum_i q_i / (1 + gamma mu_i) and B = sum_i q_i gamma |grad f_i(x*)|^2 / ((1 + gamma mu_i) mu_i) of Theorem 2.

    q_i = E[1{i in S} / |S|]. With the remaining probability 1 - sum_i q_i nobody is drawn: x then stays, and A grows by it.

    Args:
        gamma: Step size.
        convexity: mu_i [n].
        shares: q_i [n].
        gradient_norms2: |grad f_i(x*)|^2 [n].
    """
    weights = shares / (1 + gamma * convexity)
    return weights.sum() + (1 - shares.sum()), (weights * gamma * gradient_norms2 / convexity).sum()


def lemma_13(t, gamma, mu, sigma2, b, s, distance2):
    """Return the bound of Lemma 13, for steps of SPPM-AS that miss the exact one by at most sqrt(b).

    E|x_t - x*|^2 <= ((1 + s) / g)^t |x_0 - x*|^2 + (1 + s) (gamma^2 sigma^2 + b g / s) / (D - s), g = (1 + gamma mu)^2,
    D = gamma^2 mu^2 + 2 gamma mu.

    Args:
        t: Number of rounds, or an array of them.
        gamma: Step size.
        mu: mu_AS > 0 of the design.
        sigma2: sigma^2_AS of the design.
        b: Squared error of a step.
        s: Any number in (0, D).
        distance2: |x_0 - x*|^2.
    """
    growth, excess = (1 + gamma * mu) ** 2, gamma * mu * (2 + gamma * mu)
    floor = (1 + s) * (gamma**2 * sigma2 + b * growth / s) / (excess - s)
    return ((1 + s) / growth) ** (1.0 * t) * distance2 + floor


def best_s(gamma, mu, sigma2, b):
    """Return the s with the lowest floor in `lemma_13`.

    It solves (gamma^2 sigma^2 + b) s^2 + 2 b s = b D, and is gamma mu where sigma = 0.

    Args:
        gamma: Step size.
        mu: mu_AS > 0 of the design.
        sigma2: sigma^2_AS of the design.
        b: Squared error of a step, > 0.
    """
    total = gamma**2 * sigma2 + b
    excess = gamma * mu * (2 + gamma * mu)
    # The usual formula for the root cancels for small b; this form does not.
    return b * excess / (b + (b * (b + total * excess)) ** 0.5)


def tolerance(epsilon, gamma, mu):
    """Return b = (epsilon / 4) (gamma mu / (1 + gamma mu))^2: steps that miss by sqrt(b) raise Lemma 13's floor by epsilon / 4.

    With s = gamma mu, b adds (1 + s) b (1 + gamma mu)^2 / (s (D - s)) = b (1 + gamma mu)^2 / (gamma mu)^2 to that floor.

    Args:
        epsilon: Squared distance to reach.
        gamma: Step size.
        mu: mu_AS > 0 of the design.
    """
    return epsilon / 4 * (gamma * mu / (1 + gamma * mu)) ** 2
