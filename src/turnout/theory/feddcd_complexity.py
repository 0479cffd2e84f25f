"""Orders of the rounds to E[f - f*] <= epsilon, as table 1 of FedDCD compares methods; constant factors are 1.

alpha = `convexity` and beta = `smoothness` of the f_i, zeta = `heterogeneity` with |grad f_i(x*)| <= zeta, sigma^2 = `noise2` the
variance of a stochastic gradient, K = `steps` local steps, tau = `size` of n = `clients`. The orders show how rounds grow with
each quantity, not how many there are.
"""

import math

from turnout.theory.feddcd import nice_spectral_gap


def mbsgd(epsilon, size, clients, convexity, smoothness, heterogeneity, noise2) -> float:
    """Return sigma^2 / (tau alpha epsilon) + (1 - tau/n) zeta^2 / (tau alpha epsilon) + (beta/alpha) log(1/epsilon).

    Args:
        epsilon: Accuracy.
        size: tau.
        clients: n.
        convexity: alpha.
        smoothness: beta.
        heterogeneity: zeta.
        noise2: sigma^2.
    """
    drawn = (noise2 + (1 - size / clients) * heterogeneity**2) / (size * convexity * epsilon)
    return drawn + smoothness / convexity * math.log(1 / epsilon)


def fedavg(epsilon, size, convexity, smoothness, heterogeneity, noise2, steps) -> float:
    """Return the order of the rounds of FedAvg.

    sigma^2 / (tau K alpha epsilon) + sqrt(beta) (zeta + sigma / sqrt K) / (alpha sqrt epsilon) + (beta / alpha) log(1 / epsilon).

    The paper prints K times the second term, which is how it counts in local steps and not in rounds.

    Args:
        epsilon: Accuracy.
        size: tau.
        convexity: alpha.
        smoothness: beta.
        heterogeneity: zeta.
        noise2: sigma^2.
        steps: K.
    """
    drift = math.sqrt(smoothness / epsilon) * (heterogeneity + math.sqrt(noise2 / steps)) / convexity
    return noise2 / (size * steps * convexity * epsilon) + drift + smoothness / convexity * math.log(1 / epsilon)


def scaffold(epsilon, size, clients, convexity, smoothness, noise2, steps) -> float:
    """Return sigma^2 / (tau K alpha epsilon) + (beta/alpha + n/tau) log(1/epsilon).

    Args:
        epsilon: Accuracy.
        size: tau.
        clients: n.
        convexity: alpha.
        smoothness: beta.
        noise2: sigma^2.
        steps: K.
    """
    return noise2 / (size * steps * convexity * epsilon) + (smoothness / convexity + clients / size) * math.log(1 / epsilon)


def feddcd(epsilon, size, clients, convexity, smoothness, heterogeneity) -> float:
    """Return (n - 1) beta / ((tau - 1) alpha) log(zeta / epsilon).

    Args:
        epsilon: Accuracy.
        size: tau.
        clients: n.
        convexity: alpha.
        smoothness: beta.
        heterogeneity: zeta.
    """
    return smoothness / convexity / nice_spectral_gap(size, clients) * math.log(heterogeneity / epsilon)


def accfeddcd(epsilon, size, clients, convexity, smoothness, heterogeneity) -> float:
    """Return (n - 1) / (tau - 1) sqrt(beta/alpha) log(zeta / epsilon), a round being two cohorts.

    Args:
        epsilon: Accuracy.
        size: tau.
        clients: n.
        convexity: alpha.
        smoothness: beta.
        heterogeneity: zeta.
    """
    return math.sqrt(smoothness / convexity) / nice_spectral_gap(size, clients) * math.log(heterogeneity / epsilon)


def table_1(epsilon, size, clients, convexity, smoothness, heterogeneity) -> dict[str, float]:
    """Return the order of each method's rounds with exact gradients, sigma = 0; 0 where epsilon is reached at once (table 1).

    A round of AccFedDCD is two cohorts.

    Args:
        epsilon: Accuracy.
        size: tau, at least 2.
        clients: n.
        convexity: alpha.
        smoothness: beta.
        heterogeneity: zeta.

    Raises:
        UserError: If tau is out of range.

    Examples:
        >>> from turnout.theory.feddcd_complexity import table_1
        >>> found = table_1(1e-3, size=5, clients=9, convexity=1.0, smoothness=4.0, heterogeneity=1.0)
        >>> min(found, key=found.get)
        'AccFedDCD'
    """
    rates, sizes = (convexity, smoothness), (size, clients)
    orders = {
        "MB-SGD": mbsgd(epsilon, *sizes, *rates, heterogeneity, noise2=0.0),
        "FedAvg": fedavg(epsilon, size, *rates, heterogeneity, noise2=0.0, steps=1),
        "SCAFFOLD": scaffold(epsilon, *sizes, *rates, noise2=0.0, steps=1),
        "FedDCD": feddcd(epsilon, *sizes, *rates, heterogeneity),
        "AccFedDCD": accfeddcd(epsilon, *sizes, *rates, heterogeneity),
    }
    return {method: max(0.0, order) for method, order in orders.items()}
