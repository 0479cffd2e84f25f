"""OSMD: online stochastic mirror descent with one step size, or with experts for several."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.samplers.probabilities.base import HorizonRule
from turnout.samplers.probabilities.scaling import bound_or_zero, estimated, finite, squares
from turnout.samplers.probabilities.waterfilling import bounded


class Distribution(NamedTuple):
    """q_i [n], and G, 0 while unknown."""

    q: Float[Array, " n"]
    bound: Float[Array, ""]


@record
class Osmd(HorizonRule):
    """OSMD: q <- KL projection of q_i exp(eta pi_i^2 / (K^2 q_i^3)) on q_i >= alpha / n, i being drawn (Zhao et al., 2021).

    For other designs the exponent is eta pi_i^2 / (K q_i^2 p_i). eta = factor K^2 alpha^3 / (n^3 abar) sqrt(ln n / (2T)) with
    abar = G^2, the size of pi_i^2 at the start.

    Args:
        factor: Factor of eta, > 0.
        floor: alpha in (0, 1]; every q_i is at least alpha / n.
        bound: G; None takes the root of the first cohort's mean pi_i^2.
        rounds: T; None takes the rounds of the run.

    Examples:
        >>> import turnout as t
        >>> population, rule = t.Population(count=4), t.Osmd(rounds=100)
        >>> rule.inclusion_probabilities(rule.start(population), 2, population).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    factor: Positive = 1.0
    floor: Fraction = 0.4
    bound: Positive | None = None
    rounds: Count | None = None

    def start(self, population):
        return Distribution(jnp.full(population.count, 1 / population.count, jnp.result_type(float)), bound_or_zero(self.bound))

    def scores(self, state, size, population):
        return state.q

    def observe(self, state, cohort, feedback, size):
        bound, size = estimated(state.bound, cohort, feedback, 2), jnp.asarray(size, feedback.dtype)
        eta = self.factor * base_step(self.floor, size, state.q.size, self.horizon)
        return Distribution(mirror_step(state.q, cohort, squares(bound, cohort, feedback) / size, eta, self.floor), bound)


class Experts(NamedTuple):
    """q_i of each expert [E, n], the logarithms of the experts' weights [E], and G, 0 while unknown."""

    experts: Float[Array, "e n"]
    log_weights: Float[Array, " e"]
    bound: Float[Array, ""]


@record
class AOsmd(HorizonRule):
    """Adaptive OSMD: q = sum_e w_e q_e of E experts, each `Osmd` with factor 2^(e - 1), e = 1 to E (Zhao et al., 2021).

    w_e starts proportional to 1 / (e (e + 1)) and is multiplied by exp(-rate l_e) with the expert's estimated loss
    l_e = sum_{i in S} pi_i^2 / (p_i K q_{e,i}), rate = alpha / (n abar) sqrt(8 K / T), and
    E = ceil(log2((ln n + 4 (T - 1) ln(n / alpha)) / ln n) / 2) + 1. The published rate has sqrt(abar) instead of abar = G^2,
    which agrees for abar = 1 but depends on the unit of pi_i.

    Args:
        floor: alpha in (0, 1]; every q_i is at least alpha / n.
        bound: G; None takes the root of the first cohort's mean pi_i^2.
        rounds: T; None takes the rounds of the run.

    Examples:
        >>> import turnout as t
        >>> population, rule = t.Population(count=4), t.AOsmd(rounds=100)
        >>> rule.inclusion_probabilities(rule.start(population), 2, population).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    floor: Fraction = static(default=0.4)
    bound: Positive | None = None
    rounds: Count | None = static(default=None)

    def expert_count(self, clients: int) -> int:
        """Return E for n = `clients`."""
        if clients == 1:
            return 1
        ratio = 1 + 4 * (self.known_rounds() - 1) * math.log(clients / self.floor) / math.log(clients)
        return math.ceil(math.log2(ratio) / 2) + 1

    def start(self, population):
        n, e = population.count, jnp.arange(1, self.expert_count(population.count) + 1, dtype=jnp.result_type(float))
        return Experts(jnp.full((e.size, n), 1 / n, e.dtype), -jnp.log(e * (e + 1)), bound_or_zero(self.bound))

    def scores(self, state, size, population):
        return jax.nn.softmax(state.log_weights) @ state.experts

    def observe(self, state, cohort, feedback, size):
        e, n = state.experts.shape
        bound, size = estimated(state.bound, cohort, feedback, 2), jnp.asarray(size, feedback.dtype)
        gains = squares(bound, cohort, feedback) / size
        losses = jnp.sum(gains[None] / state.experts[:, cohort.ids], axis=1)
        log_weights = state.log_weights - self.floor / n * jnp.sqrt(8 * size / self.horizon) * finite(losses)
        etas = 2 ** jnp.arange(e, dtype=size.dtype) * base_step(self.floor, size, n, self.horizon)
        experts = jax.vmap(lambda q, eta: mirror_step(q, cohort, gains, eta, self.floor))(state.experts, etas)
        return Experts(experts, jnp.maximum(log_weights - jnp.max(log_weights), -jnp.finfo(log_weights.dtype).max / 4), bound)


def base_step(floor, size: Float[Array, ""], clients: int, rounds: Float[Array, ""]) -> Float[Array, ""]:
    """Return K^2 alpha^3 / n^3 sqrt(ln n / (2T)), eta of the first expert where abar = 1.

    Args:
        floor: alpha.
        size: K.
        clients: n.
        rounds: T.
    """
    return size**2 * (floor / clients) ** 3 * jnp.sqrt(math.log(clients) / (2 * rounds))


def mirror_step(q: Float[Array, " n"], cohort, gains: Float[Array, " m"], eta: Float[Array, ""], floor) -> Float[Array, " n"]:
    """Return the KL projection of q_i exp(eta gains_i / q_i^2) on {q_i >= alpha / n, sum q = 1}, alpha = `floor`.

    Args:
        q: q_i [n].
        cohort: The cohort.
        gains: One number for each place of the cohort [m].
        eta: Step size.
        floor: alpha.
    """
    logs = jnp.log(q).at[cohort.ids].add(finite(jnp.where(cohort.active, eta * gains / q[cohort.ids] ** 2, 0)))
    one = jnp.ones((), q.dtype)
    return bounded(jnp.exp(logs - jnp.max(logs)), one, floor / q.size * one)
