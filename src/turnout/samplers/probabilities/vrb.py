"""Variance reducer bandit."""

import jax.numpy as jnp

from turnout.core.records import record
from turnout.samplers.probabilities.kvib import Leader


@record
class Vrb(Leader):
    """a_i = sqrt(omega_i + gamma), mixed q <- (1 - theta) q + theta / n, and omega_i <- omega_i + pi_i^2 / q_i for each draw
    (variance reducer bandit, Borsos et al., 2018).

    theta = (n / T)^(1/3) with T = `rounds`, by default those of the run, or 0.3 if n > T; gamma = G^2 n / theta with G = `bound`,
    by default the mean feedback of the first cohort; `mixing` sets theta itself. The state keeps omega / K, with K q_i for p_i.
    """

    def suggested(self, ratio, size):
        return jnp.where(ratio > 1, 0.3, ratio ** (1 / 3))
