"""The bounds of FedDCD, as functions of constants; t is a number of rounds or an array of them.

There are n clients with alpha-strongly convex, beta-smooth f_i: alpha = `convexity`, beta = `smoothness`. r = `spectral_gap` is
(tau - 1) / (n - 1) for uniform cohorts, and else that of `feddcd_spectral_gap`. y*_i = grad f_i(x*), and `dual2` = sum_i
|y*_i|^2. A bound on distances is one on the mean of |w_i - x*|^2 over all clients, w_i = argmin f_i(w) - <w, y_i> being i's model
after t rounds.
"""

import math

import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.core.records import Count, Fraction, Positive, config
from turnout.problems.chain import chain_minimiser

INEXACT_LR = 1 / 4
"""The learning rate of Theorem 5.2."""

INEXACT_CONSTANT = 20 / 3
"""Factor between the distance bounds of Theorems 5.2 and 4.1 (equation (9))."""


def nice_spectral_gap(size: int, clients: int) -> float:
    """Return r = (tau - 1) / (n - 1) of uniform cohorts (Theorem 4.1).

    Args:
        size: tau, from 2 to n.
        clients: n.

    Raises:
        UserError: If tau is out of range.

    Examples:
        >>> from turnout.theory.feddcd import nice_spectral_gap
        >>> nice_spectral_gap(size=5, clients=9)
        0.5
    """
    if not 2 <= size <= clients:
        raise UserError(f"the theorems of FedDCD need cohorts of 2 to {clients} clients, but size is {size}")
    return (size - 1) / (clients - 1)


def feddcd_rate(spectral_gap: float, convexity: float, smoothness: float, lr: float = 1.0) -> float:
    """Return 1 - lr (2 - lr) r alpha / beta, the factor of one round of FedDCD with steps lr alpha (Theorem 4.1 at lr = 1).

    A round lowers the dual by lr (1 - lr/2) times the squared gradient, which is largest at lr = 1; so 0 < lr < 2.

    Args:
        spectral_gap: r, in (0, 1].
        convexity: alpha > 0.
        smoothness: beta >= alpha.
        lr: Step size of the dual variables, in (0, 2).

    Raises:
        UserError: If a constant is out of range.
    """
    _check(spectral_gap, convexity, smoothness)
    if not 0 < lr < 2:
        raise UserError(f"Theorem 4.1 is about 0 < lr < 2, but lr is {lr:g}")
    return 1 - lr * (2 - lr) * spectral_gap * convexity / smoothness


def inexact_rate(spectral_gap: float, convexity: float, smoothness: float) -> float:
    """Return 1 - kappa, kappa = r alpha / (32 beta), for lr = `INEXACT_LR` and delta = `inexactness` (Theorem 5.2).

    Args:
        spectral_gap: r, in (0, 1].
        convexity: alpha > 0.
        smoothness: beta >= alpha.

    Raises:
        UserError: If a constant is out of range.
    """
    _check(spectral_gap, convexity, smoothness)
    return 1 - spectral_gap * convexity / (32 * smoothness)


def inexactness(spectral_gap: float, convexity: float, smoothness: float) -> float:
    """Return delta = (1 - kappa) / 4, the accuracy of Theorem 5.2: E|w - w_i|^2 <= delta |(last w) - w_i|^2.

    Args:
        spectral_gap: r, in (0, 1].
        convexity: alpha > 0.
        smoothness: beta >= alpha.

    Raises:
        UserError: If a constant is out of range.
    """
    return inexact_rate(spectral_gap, convexity, smoothness) / 4


def accfeddcd_rate(spectral_gap: float, convexity: float, smoothness: float) -> float:
    """Return 1 - s / (1/r + s), s = sqrt(alpha / beta), the factor of one round, two cohorts, of AccFedDCD (Theorem 6.1).

    Args:
        spectral_gap: r, in (0, 1].
        convexity: alpha > 0.
        smoothness: beta >= alpha.

    Raises:
        UserError: If a constant is out of range.
    """
    _check(spectral_gap, convexity, smoothness)
    root = math.sqrt(convexity / smoothness)
    return 1 - root / (1 / spectral_gap + root)


def accfeddcd_constant(spectral_gap: float, convexity: float, smoothness: float) -> float:
    """Return the `constant` in `distance` for the models at v = (1 - a) y + a z, from which AccFedDCD solves after t rounds.

    In units where alpha = 1, P(t) = G(y) - G* + C |z - y*|^2 with C = ((a^2 + b) / (a r))^2 / 2 shrinks by 1 - a a round, and
    G(v) - G* <= (1 - a) (G(y) - G*) + (a/2) |z - y*|^2: so it is 2 max(1 - a, a / 2C) (1/2 + C). Theorem 6.1 is about y.

    Args:
        spectral_gap: r, in (0, 1].
        convexity: alpha > 0.
        smoothness: beta >= alpha.

    Raises:
        UserError: If a constant is out of range.
    """
    rate = accfeddcd_rate(spectral_gap, convexity, smoothness)
    a = 1 - rate
    weight = ((a + spectral_gap**2 * convexity / smoothness) / spectral_gap) ** 2 / 2
    return 2 * max(rate, a / (2 * weight)) * (0.5 + weight)


def accfeddcd_dual_constant(spectral_gap: float, convexity: float, smoothness: float) -> float:
    """Return 1 + 2 C beta / alpha, the `constant` in `dual_gap` for AccFedDCD, with C as in `accfeddcd_constant`.

    P(t) shrinks by 1 - a a round from P(0) = G_0 - G* + C |y*|^2, and |y*|^2 <= 2 (beta / alpha) (G_0 - G*) in units where
    alpha = 1. It is about 2 for full participation. Equation (10) has 1, for which the paper's proof leaves the second term out.

    Args:
        spectral_gap: r, in (0, 1].
        convexity: alpha > 0.
        smoothness: beta >= alpha.

    Raises:
        UserError: If a constant is out of range.
    """
    a, ratio = 1 - accfeddcd_rate(spectral_gap, convexity, smoothness), convexity / smoothness
    return 1 + ((a + spectral_gap**2 * ratio) / spectral_gap) ** 2 / ratio


def dual_gap(t, rate: float, first: float, constant: float = 1.0):
    """Return the bound E[G(y) - G*] <= constant rate^t (G_0 - G*) (equations (3), (8) and (10)).

    Args:
        t: Number of rounds, or an array of them.
        rate: Factor of one round.
        first: G_0 - G*.
        constant: 1 for Theorems 4.1 and 5.2, `accfeddcd_dual_constant` for AccFedDCD.
    """
    return constant * rate ** (1.0 * t) * first


def distance(t, rate: float, clients: int, convexity: float, dual2: float, constant: float = 1.0):
    """Return the bound E (1/n) sum_i |w_i - x*|^2 <= constant rate^t sum_i |y*_i|^2 / (n alpha^2) (equations (4) and (11)).

    It holds for the mean of a uniform cohort's models too.

    Args:
        t: Number of rounds, or an array of them.
        rate: Factor of one round.
        clients: n.
        convexity: alpha.
        dual2: sum_i |y*_i|^2.
        constant: 1 for Theorem 4.1, `INEXACT_CONSTANT` for Theorem 5.2.
    """
    return constant * rate ** (1.0 * t) * dual2 / (clients * convexity**2)


def rounds(epsilon: float, rate: float, first: float) -> int:
    """Return the least t with rate^t first <= epsilon.

    Args:
        epsilon: Accuracy, > 0.
        rate: Factor of one round, in (0, 1).
        first: The bound at t = 0.

    Raises:
        UserError: If epsilon is not positive.
    """
    if not epsilon > 0:
        raise UserError(f"an accuracy must be greater than 0, but epsilon is {epsilon:g}")
    return max(0, math.ceil(math.log(first / epsilon) / -math.log(rate)))


def lower_rate(size: int, clients: int, convexity: float, smoothness: float) -> float:
    """Return 1 - (tau / n) 4 / (sqrt K + 2 + 1 / sqrt K), K = beta / (n alpha), the best factor of a uniform cohort's exchange.

    No first-order method does better on a long `problems.Chain`, as the proof of Theorem 7.1 shows for alpha < beta / n.
    The minimum in its equation (14) claims more than the proof gives and, for large beta / alpha, more than Theorem 6.1 allows.

    Args:
        size: tau.
        clients: n.
        convexity: alpha, in (0, beta / n).
        smoothness: beta.

    Raises:
        UserError: If a constant is out of range.
    """
    _check_lower(size, clients)
    if not smoothness > clients * convexity > 0:
        raise UserError("the lower bound of Theorem 7.1 is about 0 < clients * convexity < smoothness: lower the convexity")
    root = math.sqrt(smoothness / (clients * convexity))
    return 1 - size / clients * 4 / (root + 2 + 1 / root)


def lower_bound(t, size: int, clients: int, convexity: float, minimiser: Float[np.ndarray, " length"]):
    """Return the bound E[f(x_t) - f(x*)] >= (alpha / 2) `lower_distance` (Theorem 7.1, equation (43)).

    Args:
        t: Number of exchanges, or an array of them.
        size: tau.
        clients: n.
        convexity: alpha.
        minimiser: x* [length] of a `problems.Chain`.
    """
    return convexity / 2 * lower_distance(t, size, clients, minimiser)


def lower_distance(t, size: int, clients: int, minimiser: Float[np.ndarray, " length"]):
    """Return the bound E|x_t - x*|^2 >= sum_k P(K_t = k) sum_{j > k} (x*_j)^2 after t exchanges with uniform cohorts of tau.

    Any method finds at most K_t ~ Binomial(t, tau / n) coordinates, as the proof of Theorem 7.1 shows. On a long chain the bound
    falls by `lower_rate` an exchange.

    Args:
        t: Number of exchanges, or an array of them.
        size: tau.
        clients: n.
        minimiser: x* [length] of a `problems.Chain`.

    Raises:
        UserError: If tau is out of range.
    """
    # Slow to import.
    from scipy.stats import binom

    _check_lower(size, clients)
    missing = np.append(np.cumsum(minimiser[::-1] ** 2)[::-1], 0)
    coordinates = np.arange(missing.size)
    return binom.pmf(coordinates, np.asarray(t)[..., None], size / clients) @ missing


@config
class LowerBound:
    """The lower bound of Theorem 7.1 on a chain, with uniform cohorts.

    Args:
        clients: n.
        length: Coordinates of the chain.
        ratio: Ratio of neighbouring coordinates of x*.
        convexity: alpha.
        size: tau.
        cohorts: Cohorts of a round, each asked once.
    """

    clients: Count
    length: Count
    ratio: Fraction
    convexity: Positive
    size: Count
    cohorts: Count = 1

    def at(self, t, metric: str = "distance"):
        """Return the bound on E|x_t - x*|^2, or on E[f(x_t) - f(x*)] for the `metric` "gap", after t rounds.

        Args:
            t: Number of rounds, or an array of them.
            metric: "distance" or "gap".
        """
        minimiser = chain_minimiser(self.ratio, self.length)
        bound = lower_distance(self.cohorts * np.asarray(t), self.size, self.clients, minimiser)
        return bound if metric == "distance" else self.convexity / 2 * bound


def _check(spectral_gap: float, convexity: float, smoothness: float) -> None:
    if not 0 < spectral_gap <= 1:
        raise UserError(f"cohorts must connect the clients: the theorems need 0 < spectral_gap <= 1, but it is {spectral_gap:g}")
    if not 0 < convexity <= smoothness:
        raise UserError(
            f"the theorems need 0 < convexity <= smoothness, but convexity is {convexity:g} and smoothness {smoothness:g}"
        )


def _check_lower(size: int, clients: int) -> None:
    if not 1 <= size <= clients:
        raise UserError(f"a cohort has 1 to {clients} clients, but size is {size}")
