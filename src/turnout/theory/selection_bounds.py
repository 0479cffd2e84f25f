"""The bounds of Cost-aware client selection on the steps of I-CGM and on the errors of its estimators.

Constants are those of `selection`. The entries t = 0, 1, ..., T of `steps2` are E|x^t - x^{t-1}|^2, the first of which counts for
nothing, and those of `gradients2` E|grad f(x^t)|^2.
"""

import math

import numpy as np
from jaxtyping import Float

from turnout.theory.selection import checked_lam


def theorem_3_1(lam: float, delta_one: float, gap: float, errors2: float, residuals2: float) -> float:
    """Return the bound of Theorem 3.1 on sum_{t=1}^T (|grad f(x^t)|^2 + (lambda + Delta_1)^2 |x^t - x^{t-1}|^2) of I-CGM.

    a F^0 + (a / (lambda - Delta_1) + 4) sum |g^t - grad f(x^t)|^2 + 4 sum |grad F_t(x^{t+1})|^2, the sums over t = 0, ..., T - 1,
    with a = 12 (lambda + Delta_1)^2 / (lambda - Delta_1) and F_t(x^{t+1}) <= F_t(x^t).

    Args:
        lam: lambda > Delta_1.
        delta_one: Delta_1.
        gap: F^0.
        errors2: sum_t |g^t - grad f(x^t)|^2.
        residuals2: sum_t |grad F_t(x^{t+1})|^2.

    Raises:
        UserError: If lambda is too small.
    """
    weight = 12 * _descent(lam, delta_one)
    return weight * gap + (weight / (lam - delta_one) + 4) * errors2 + 4 * residuals2


def condition_6(lam: float, delta_one: float, gap: float, errors2: float) -> float:
    """Return how large sum_t E|grad F_t(x^{t+1})|^2 may be (condition (6)).

    (lambda + Delta_1)^2 / (lambda - Delta_1) F^0 + sum_t E|g^t - grad f(x^t)|^2, both sums over t = 0, ..., T - 1.

    Args:
        lam: lambda > Delta_1.
        delta_one: Delta_1.
        gap: F^0.
        errors2: sum_t E|g^t - grad f(x^t)|^2.

    Raises:
        UserError: If lambda is too small.
    """
    return _descent(lam, delta_one) * gap + errors2


def error_weight(lam: float, delta_one: float) -> float:
    """Return w = 12 (lambda + Delta_1)^2 / (lambda - Delta_1)^2 + 8, with which condition (7) weighs the estimator's errors.

    w sum_{t=0}^{T-1} E|g^t - grad f(x^t)|^2 <= sum_{t=1}^T (E|grad f(x^t)|^2 / 2 + (lambda + Delta_1)^2 E|x^t - x^{t-1}|^2).

    Args:
        lam: lambda > Delta_1.
        delta_one: Delta_1.

    Raises:
        UserError: If lambda is too small.
    """
    return 12 * _descent(lam, delta_one) / (lam - delta_one) + 8


def corollary_3_2(lam: float, delta_one: float, gap: float, rounds: int) -> float:
    """Return the bound 32 (lambda + Delta_1)^2 / (lambda - Delta_1) F^0 / T on E|grad f|^2 under (6) and (7) (Corollary 3.2).

    The gradient is that at an iterate drawn from x^1, ..., x^T.

    Args:
        lam: lambda > Delta_1.
        delta_one: Delta_1.
        gap: F^0.
        rounds: T.

    Raises:
        UserError: If lambda is too small.
    """
    return 32 * _descent(lam, delta_one) * gap / rounds


def lemma_3_3(lam: float, delta_one: float, smooth_one: float, rounds: int) -> int:
    """Return the K = ceil(8 L_1 T / (lambda - Delta_1)) steps of CGM_const that satisfy condition (6) in T rounds (Lemma 3.3).

    Args:
        lam: lambda > Delta_1.
        delta_one: Delta_1.
        smooth_one: L_1.
        rounds: T.

    Raises:
        UserError: If lambda is too small.
    """
    return math.ceil(8 * smooth_one * rounds / (checked_lam(lam, delta_one) - delta_one))


def remark_a_5(clients: int, failure: float) -> int:
    """Return the 2 n^2 log(2 n / delta) random selections of one client that give a full gradient (Remark A.5), rounded up.

    They do with probability at least 1 - delta, and are cheaper than a full pass where C_A n exceeds C_R times their number.

    Args:
        clients: n.
        failure: delta, in (0, 1).
    """
    return math.ceil(2 * clients**2 * math.log(2 * clients / failure))


def lemma_4_1(gradients2: Float[np.ndarray, " t"], steps2: Float[np.ndarray, " t"], deviation, clients: int, size: int) -> float:
    """Return the bound of Lemma 4.1 on sum_{t=0}^T E|G^t - grad f(x^t)|^2 of SAGA with two full passes.

    (2 n_m q_m / m) |grad f(x^1)|^2 + (n_m - 1 + sqrt(n_m^2 - n_m)) / (n - 1) sum_{t=2}^{T-1} gradients2_t
    + 4 n_m^2 delta_m^2 sum_{t=2}^T steps2_t.

    Args:
        gradients2: E|grad f(x^t)|^2, t = 0, ..., T.
        steps2: E|x^t - x^{t-1}|^2, t = 0, ..., T.
        deviation: delta_m.
        clients: n.
        size: m.
    """
    ratio, others = clients / size, max(1, clients - 1)
    first = 2 * ratio * (clients - size) / others / size
    later = (ratio - 1 + math.sqrt(ratio**2 - ratio)) / others
    return float(first * gradients2[1:2].sum() + later * gradients2[2:-1].sum() + (2 * ratio * deviation) ** 2 * steps2[2:].sum())


def lemma_4_3(steps2: Float[np.ndarray, " t"], deviation: float, refresh: float) -> float:
    """Return the bound 4 delta_m^2 / p_B^2 sum_{t=1}^T steps2_t on sum_{t=0}^T E|G^t - grad f(x^t)|^2 of SVRG (Lemma 4.3).

    Args:
        steps2: E|x^t - x^{t-1}|^2, t = 0, ..., T.
        deviation: delta_m.
        refresh: p_B.
    """
    return float((2 * deviation / refresh) ** 2 * steps2[1:].sum())


def lemma_5_2(errors2: float, steps2: Float[np.ndarray, " t"], deviation: float, beta: float) -> float:
    """Return the bound of Lemma 5.2 on sum_{t=0}^T E|g^t - grad f(x^t)|^2, for RG on any conditionally unbiased G^t.

    (2 beta errors2 + (2 delta_m^2 / beta) sum_{t=1}^T steps2_t) / (2 - beta), `errors2` being
    sum_{t=0}^{T-1} E|G^t - grad f(x^t)|^2 or a bound on it.

    Args:
        errors2: sum_{t=0}^{T-1} E|G^t - grad f(x^t)|^2, or a bound on it.
        steps2: E|x^t - x^{t-1}|^2, t = 0, ..., T.
        deviation: delta_m.
        beta: beta.
    """
    return float((2 * beta * errors2 + 2 * deviation**2 / beta * steps2[1:].sum()) / (2 - beta))


def corollary_5_3(
    gradients2: Float[np.ndarray, " t"], steps2: Float[np.ndarray, " t"], deviation: float, beta: float, clients: int, size: int
) -> float:
    """Return the bound of `lemma_5_2` for RG-SAGA, with `lemma_4_1` (Corollary 5.3).

    Args:
        gradients2: E|grad f(x^t)|^2, t = 0, ..., T.
        steps2: E|x^t - x^{t-1}|^2, t = 0, ..., T.
        deviation: delta_m.
        beta: beta.
        clients: n.
        size: m.
    """
    return lemma_5_2(lemma_4_1(gradients2, steps2, deviation, clients, size), steps2, deviation, beta)


def corollary_5_4(steps2: Float[np.ndarray, " t"], deviation: float, beta: float, refresh: float) -> float:
    """Return the bound of `lemma_5_2` for RG-SVRG, with `lemma_4_3` (Corollary 5.4).

    Args:
        steps2: E|x^t - x^{t-1}|^2, t = 0, ..., T.
        deviation: delta_m.
        beta: beta.
        refresh: p_B.
    """
    return lemma_5_2(lemma_4_3(steps2, deviation, refresh), steps2, deviation, beta)


def _descent(lam: float, delta_one: float) -> float:
    """Return (lambda + Delta_1)^2 / (lambda - Delta_1)."""
    return (checked_lam(lam, delta_one) + delta_one) ** 2 / (lam - delta_one)
