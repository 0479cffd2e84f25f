"""What the theorems of Cohort Squeeze promise, as functions of constants that are floats or NumPy arrays.

gamma is the step of the method, mu = mu_AS > 0 and sigma2 = sigma^2_AS the constants of the design (`theory.designs`), distance2
= |x_0 - x*|^2, and t a number of rounds or an array of them. Distances are squared throughout. `tolerance` takes traced
values too, since algorithms call it.
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
        neighbourhood: What is left as t grows.
        start: The first term at t = 0.
    """

    theorem: int | str
    rate: float
    neighbourhood: float
    start: float

    def at(self, t):
        """Return the bound after t rounds, a number or an array."""
        return self.rate ** (1.0 * t) * self.start + self.neighbourhood


def theorem_1(t, gamma, mu, sigma2, distance2):
    """E|x_t - x*|^2 <= (1 + gamma mu)^-2t |x_0 - x*|^2 + `neighbourhood`, for exact steps of SPPM-AS with independent draws
    (Cohort Squeeze, Theorem 1)."""
    return contraction(gamma, mu) ** (1.0 * t) * distance2 + neighbourhood(gamma, mu, sigma2)


def contraction(gamma, mu):
    """(1 + gamma mu)^-2, the factor of one step in Theorem 1."""
    return (1 + gamma * mu) ** -2.0


def neighbourhood(gamma, mu, sigma2):
    """gamma sigma^2 / (gamma mu^2 + 2 mu), what Theorem 1 leaves when t grows."""
    return gamma * sigma2 / (gamma * mu**2 + 2 * mu)


def neighbourhood_bound(gamma, mu, sigma2):
    """min {sigma^2 / mu^2, gamma sigma^2 / mu} >= `neighbourhood`: the first for any gamma, the second for small ones
    (Cohort Squeeze, section 2.2)."""
    return np.minimum(sigma2 / mu**2, gamma * sigma2 / mu)


def complexity(epsilon: float, mu: float, sigma2: float, distance2: float) -> tuple[float, int]:
    """Return gamma and the rounds t after which Theorem 1 promises E|x_t - x*|^2 <= epsilon (Cohort Squeeze, section 2.2).

    For epsilon <= sigma^2 / mu^2: gamma = epsilon mu / sigma^2, t >= (sigma^2 / (2 epsilon mu^2) + 1/2) log(2 distance2/epsilon).
    A larger epsilon takes one step, with (1 + gamma mu)^-2 distance2 = epsilon - sigma^2 / mu^2, and so does sigma = 0, where any
    larger gamma serves too. Where x_0 is near enough it takes none, and any gamma: 1 / mu is returned.
    """
    if distance2 <= epsilon:
        return 1 / mu, 0
    if epsilon > sigma2 / mu**2:
        return (math.sqrt(distance2 / (epsilon - sigma2 / mu**2)) - 1) / mu, 1
    rounds = (sigma2 / (2 * epsilon * mu**2) + 0.5) * math.log(2 * distance2 / epsilon)
    return epsilon * mu / sigma2, math.ceil(rounds)


def theorem_2(t, gamma, convexity, shares, gradient_norms2, distance2):
    """E|x_t - x*|^2 <= A^t |x_0 - x*|^2 + B / (1 - A), for x <- (1/|S|) sum_{i in S} prox_{gamma f_i}(x), A and B being
    `averaged_prox` (Cohort Squeeze, Theorem 2)."""
    a, b = averaged_prox(gamma, convexity, shares, gradient_norms2)
    return a ** (1.0 * t) * distance2 + b / (1 - a)


def averaged_prox(gamma, convexity, shares, gradient_norms2):
    """Return A = sum_i q_i / (1 + gamma mu_i) and B = sum_i q_i gamma |grad f_i(x*)|^2 / ((1 + gamma mu_i) mu_i) of Theorem 2.

    mu_i = `convexity`, q_i = E[1{i in S} / |S|] = `shares` (`theory.shares`), |grad f_i(x*)|^2 = `gradient_norms2`, all [n]. What
    the q_i lack of one is the chance that nobody is drawn: x then stays, and A grows by it.
    """
    kept = shares / (1 + gamma * convexity)
    return kept.sum() + (1 - shares.sum()), (kept * gamma * gradient_norms2 / convexity).sum()


def lemma_13(t, gamma, mu, sigma2, b, s, distance2):
    """E|x_t - x*|^2 <= ((1 + s) / g)^t |x_0 - x*|^2 + (1 + s) (gamma^2 sigma^2 + b g / s) / (D - s), g = (1 + gamma mu)^2.

    For steps of SPPM-AS that miss the exact one by at most sqrt(b), any 0 < s < D = gamma^2 mu^2 + 2 gamma mu (Lemma 13).
    """
    growth, excess = (1 + gamma * mu) ** 2, gamma * mu * (2 + gamma * mu)
    floor = (1 + s) * (gamma**2 * sigma2 + b * growth / s) / (excess - s)
    return ((1 + s) / growth) ** (1.0 * t) * distance2 + floor


def best_s(gamma, mu, sigma2, b):
    """The s with the lowest floor in `lemma_13`, b > 0: (gamma^2 sigma^2 + b) s^2 + 2 b s = b D; gamma mu where sigma = 0."""
    total = gamma**2 * sigma2 + b
    excess = gamma * mu * (2 + gamma * mu)
    # The usual formula for the root cancels for small b; this form does not.
    return b * excess / (b + (b * (b + total * excess)) ** 0.5)


def tolerance(epsilon, gamma, mu):
    """b = (epsilon / 4) (gamma mu / (1 + gamma mu))^2: steps that miss by sqrt(b) raise Lemma 13's floor by epsilon / 4.

    With s = gamma mu, b adds (1 + s) b (1 + gamma mu)^2 / (s (D - s)) = b (1 + gamma mu)^2 / (gamma mu)^2 to that floor.
    """
    return epsilon / 4 * (gamma * mu / (1 + gamma * mu)) ** 2
