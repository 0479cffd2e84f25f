"""The epsilon of Gaussian releases, by an own calculation."""

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm


def gaussian_epsilon(deviation: float, delta: float) -> float:
    """Balle and Wang (2018), Theorem 8: delta(epsilon) of two Gaussians of this deviation at a distance of one, inverted."""

    def excess(epsilon):
        ends = norm.cdf(0.5 / deviation - epsilon * deviation), norm.logcdf(-0.5 / deviation - epsilon * deviation)
        return ends[0] - np.exp(epsilon + ends[1]) - delta

    return brentq(excess, 0, 1e6) if excess(0) > 0 else 0.0
