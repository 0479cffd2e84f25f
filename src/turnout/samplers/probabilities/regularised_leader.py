"""K-Vib and VRB: rules that follow the regularised leader."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.errors import UserError
from turnout.core.records import Count, Positive, Share, record
from turnout.core.tree import positive
from turnout.samplers.probabilities.base import HorizonRule
from turnout.samplers.probabilities.by_client import ByClient
from turnout.samplers.probabilities.scaling import bound_or_zero, estimated


@record
class RegularisedLeader(ByClient, HorizonRule):
    """Base class: a_i = sqrt(omega_i + gamma), gamma = G^2 n / (K theta), and omega_i <- omega_i + pi_i^2 / p_i for drawn i.

    Only ratios of scores matter: a client is remembered by omega_i / G^2, and its score is a_i / G.

    Args:
        bound: G, the size of pi_i; None takes it from the first cohort.
        rounds: T, the number of rounds; None takes that of the run.
        mixing: theta; None for the paper's value.
        scale: Factor of G.
    """

    bound: Positive | None = None
    rounds: Count | None = None
    mixing: Share | None = None
    scale: Positive = 1.0

    def first(self, population):
        return jnp.zeros(population.count, jnp.result_type(float))

    def first_unit(self):
        return bound_or_zero(self.bound)

    def unit(self, known, cohort, feedback):
        return estimated(known, cohort, feedback, 1)

    def learned(self, own, cohort, feedback, unit):
        return own + (feedback / (self.scale * positive(unit))) ** 2 * cohort.expansion

    def score(self, own, size, count):
        return jnp.sqrt(own + self._gamma(size, count))

    def remembered(self, score, size, count):
        return jnp.maximum(0, score**2 - self._gamma(size, count))

    def _gamma(self, size, count: int):
        """Return gamma / G^2."""
        return count / (size * positive(self._theta(size, count)))

    def theta(self, size, population):
        return self._theta(size, population.count)

    def _theta(self, size, count: int):
        if self.mixing is not None:
            return jnp.asarray(self.mixing, jnp.result_type(float))
        return self.default_theta(count / self.horizon, jnp.asarray(size, jnp.result_type(float)))

    def default_theta(self, ratio: Float[Array, ""], size: Float[Array, ""]) -> Float[Array, ""]:
        """Return the paper's theta for n / T = `ratio` and K = `size`.

        Args:
            ratio: n / T.
            size: K.
        """
        raise UserError(f"{type(self).__name__} has no default_theta(self, ratio, size): write one")


@record
class KVib(RegularisedLeader):
    """K-Vib: a_i = sqrt(omega_i + gamma), omega_i <- omega_i + pi_i^2 / p_i for drawn i (Zeng et al., 2023, Algorithm 2).

    The capped p are mixed, p <- (1 - theta) p + theta K / n, and both the estimator and the feedback divide by the mixed p.
    theta = min(1, (n / (T K))^(1/3)) and gamma = G^2 n / (K theta) (section 6, Theorem 5.2). If T K <= n, theta is 1: draws are
    uniform unless `mixing` sets another theta.

    Args:
        bound: G, the size of pi_i; None takes the mean feedback of the first cohort.
        rounds: T; None takes the rounds of the run.
        mixing: theta in [0, 1], instead of the paper's value.
        scale: Factor of G.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> population, rule = t.Population(count=4), t.KVib(bound=1.0, mixing=0.5)
        >>> state = rule.start(population)
        >>> rule.inclusion_probabilities(state, 2, population).tolist()
        [0.5, 0.5, 0.5, 0.5]
        >>> cohort = t.Cohort.of([0], 0.5, population, selection="arbitrary")
        >>> state = rule.observe(state, cohort, jnp.array([3.0]), 2)
        >>> rule.scores(state, 2, population).round(1).astype(int).tolist()  # gamma = 4, omega_0 = 3^2 / 0.5
        [4, 2, 2, 2]
    """

    def default_theta(self, ratio, size):
        return jnp.minimum(1, (ratio / size) ** (1 / 3))

    def warning(self, size, population):
        rounds, n = float(self.known_rounds()), population.count
        if self.mixing is not None or rounds * size > n:
            return None
        return (
            f"probability 'k-vib' draws uniformly in all of the {rounds:,.0f} rounds, since rounds times size is not above the "
            f"{n:,} clients: set mixing below 1, or raise rounds or size"
        )


@record
class Vrb(RegularisedLeader):
    """VRB, the variance reducer bandit: a_i = sqrt(omega_i + gamma), q <- (1 - theta) q + theta / n (Borsos et al., 2018).

    omega_i <- omega_i + pi_i^2 / q_i for each draw of i; theta = (n / T)^(1/3), or 0.3 if n > T; gamma = G^2 n / theta. Since p_i
    stands for K q_i, omega and gamma are those of the paper divided by K.

    Args:
        bound: G, the size of pi_i; None takes the mean feedback of the first cohort.
        rounds: T; None takes the rounds of the run.
        mixing: theta in [0, 1], instead of the paper's value.
        scale: Factor of G.

    Examples:
        >>> import turnout as t
        >>> population, rule = t.Population(count=4), t.Vrb(rounds=100)
        >>> rule.draw_probabilities(rule.start(population), 2, population).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """

    def default_theta(self, ratio, size):
        return jnp.where(ratio > 1, 0.3, ratio ** (1 / 3))
