"""K-Vib: probabilities that follow the regularised leader."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.errors import UserError
from turnout.core.records import Count, Positive, Share, record
from turnout.core.tree import positive
from turnout.samplers.probabilities.horizon import Planned
from turnout.samplers.probabilities.scaling import estimated, known


class Gathered(NamedTuple):
    """omega_i [n], and G, which is 0 before it is known."""

    omega: Float[Array, " n"]
    bound: Float[Array, ""]


@record
class Leader(Planned):
    """a_i = sqrt(omega_i + gamma), gamma = G^2 n / (K theta), and omega_i <- omega_i + pi_i^2 / p_i for those drawn.

    A subclass says what `theta` is for T = `rounds`, by default those of the run; `mixing` sets it. G is `bound`, by default the
    mean feedback of the first cohort, times `scale`.
    """

    bound: Positive | None = None
    rounds: Count | None = None
    mixing: Share | None = None
    scale: Positive = 1.0

    def start(self, population):
        return Gathered(jnp.zeros(population.count, jnp.result_type(float)), known(self.bound))

    def theta(self, size, population):
        if self.mixing is not None:
            return jnp.asarray(self.mixing, jnp.result_type(float))
        return self.suggested(population.count / self.horizon, jnp.asarray(size, jnp.result_type(float)))

    def suggested(self, ratio: Float[Array, ""], size: Float[Array, ""]) -> Float[Array, ""]:
        """Return theta given n / T = `ratio` and K = `size`."""
        raise UserError(f"{type(self).__name__} has no suggested(self, ratio, size): write one")

    def scores(self, state, size, population):
        gamma = (self.scale * positive(state.bound)) ** 2 * population.count / (size * positive(self.theta(size, population)))
        return jnp.sqrt(state.omega + gamma)

    def observe(self, state, cohort, feedback, size):
        gained = jnp.where(cohort.active, feedback**2 * cohort.expansion, 0)
        return Gathered(state.omega.at[cohort.ids].add(gained), estimated(state.bound, cohort, feedback, 1))


@record
class KVib(Leader):
    """a_i = sqrt(omega_i + gamma), and omega_i <- omega_i + pi_i^2 / p_i for those drawn, pi_i = lambda_i |r_i| (Algorithm 2).

    The capped p is mixed, p <- (1 - theta) p + theta K / n, and both the estimator and the feedback divide by the mixed one.
    theta = min(1, (n / (T K))^(1/3)) with T = `rounds`, by default those of the run; gamma = G^2 n / (K theta) with G = `bound`,
    by default the mean feedback of the first cohort (section 6; Theorem 5.2), times `scale`. `mixing` sets theta itself.
    """

    def suggested(self, ratio, size):
        return jnp.minimum(1, (ratio / size) ** (1 / 3))
