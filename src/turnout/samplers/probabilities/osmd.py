"""Online stochastic mirror descent, with one step size or with experts for many."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.samplers.probabilities.horizon import Planned
from turnout.samplers.probabilities.scaling import estimated, finite, known, squares
from turnout.samplers.probabilities.waterfilling import bounded


class Descended(NamedTuple):
    """q_i [n], and G, which is 0 before it is known."""

    q: Float[Array, " n"]
    bound: Float[Array, ""]


@record
class Osmd(Planned):
    """q <- the KL projection of q_i exp(eta pi_i^2 / (K^2 q_i^3)), i drawn, on {q_i >= alpha / n, sum q = 1} (Zhao et al., 2021).

    For draws of any design the exponent is eta pi_i^2 expansion_i / (K q_i^2), with as many draws as there were. alpha = `floor`;
    eta = `factor` K^2 alpha^3 / (n^3 abar) sqrt(ln n / (2T)), T = `rounds`, by default those of the run; abar = G^2, G = `bound`.
    abar is meant to be the size of pi_i^2 at the start; where G is not given, it is the mean pi_i^2 of the first cohort.
    """

    factor: Positive = 1.0
    floor: Fraction = 0.4
    bound: Positive | None = None
    rounds: Count | None = None

    def start(self, population):
        return Descended(jnp.full(population.count, 1 / population.count, jnp.result_type(float)), known(self.bound))

    def scores(self, state, size, population):
        return state.q

    def observe(self, state, cohort, feedback, size):
        bound, size = estimated(state.bound, cohort, feedback, 2), jnp.asarray(size, feedback.dtype)
        eta = self.factor * step(self.floor, size, state.q.size, self.horizon)
        return Descended(descended(state.q, cohort, squares(bound, cohort, feedback) / size, eta, self.floor), bound)


class Advised(NamedTuple):
    """q_i of each expert [E, n], the logarithms of the experts' weights [E], and G, which is 0 before it is known."""

    experts: Float[Array, "e n"]
    trust: Float[Array, " e"]
    bound: Float[Array, ""]


@record
class AOsmd(Planned):
    """q = sum_e w_e q_e of E experts, `Osmd` with `factor` 2^(e - 1), e = 1 to E (adaptive OSMD, Zhao et al., 2021).

    w_e starts proportional to 1 / (e (e + 1)) and is multiplied by exp(-rate l_e), with the expert's estimated loss
    l_e = sum_{i in S} pi_i^2 expansion_i / (K q_{e,i}) and rate = alpha / (n abar) sqrt(8 K / T);
    E = ceil(log2((ln n + 4 (T - 1) ln(n / alpha)) / ln n) / 2) + 1. alpha = `floor`, T = `rounds` and abar = G^2, G = `bound`, as
    in `Osmd`. The published rate has sqrt(abar) where abar stands here: the same for abar = 1, but not free of units.
    """

    floor: Fraction = static(default=0.4)
    bound: Positive | None = None
    rounds: Count | None = static(default=None)

    def many(self, clients: int) -> int:
        """Return E for n = `clients`."""
        if clients == 1:
            return 1
        ratio = 1 + 4 * (self.known_rounds() - 1) * math.log(clients / self.floor) / math.log(clients)
        return math.ceil(math.log2(ratio) / 2) + 1

    def start(self, population):
        n, e = population.count, jnp.arange(1, self.many(population.count) + 1, dtype=jnp.result_type(float))
        return Advised(jnp.full((e.size, n), 1 / n, e.dtype), -jnp.log(e * (e + 1)), known(self.bound))

    def scores(self, state, size, population):
        return jax.nn.softmax(state.trust) @ state.experts

    def observe(self, state, cohort, feedback, size):
        e, n = state.experts.shape
        bound, size = estimated(state.bound, cohort, feedback, 2), jnp.asarray(size, feedback.dtype)
        gained = squares(bound, cohort, feedback) / size
        losses = jnp.sum(gained[None] / state.experts[:, cohort.ids], axis=1)
        trust = state.trust - self.floor / n * jnp.sqrt(8 * size / self.horizon) * finite(losses)
        etas = 2 ** jnp.arange(e, dtype=size.dtype) * step(self.floor, size, n, self.horizon)
        experts = jax.vmap(lambda q, eta: descended(q, cohort, gained, eta, self.floor))(state.experts, etas)
        return Advised(experts, jnp.maximum(trust - jnp.max(trust), -jnp.finfo(trust.dtype).max / 4), bound)


def step(floor, size: Float[Array, ""], clients: int, rounds: Float[Array, ""]) -> Float[Array, ""]:
    """Return K^2 alpha^3 / n^3 sqrt(ln n / (2T)), eta of the first expert where abar = 1."""
    return size**2 * (floor / clients) ** 3 * jnp.sqrt(math.log(clients) / (2 * rounds))


def descended(q: Float[Array, " n"], cohort, gained: Float[Array, " m"], eta: Float[Array, ""], floor) -> Float[Array, " n"]:
    """Return the KL projection of q_i exp(eta gained_i / q_i^2) on {q_i >= alpha / n, sum q = 1}, alpha = `floor`."""
    logs = jnp.log(q).at[cohort.ids].add(finite(jnp.where(cohort.active, eta * gained / q[cohort.ids] ** 2, 0)))
    one = jnp.ones((), q.dtype)
    return bounded(jnp.exp(logs - jnp.max(logs)), one, floor / q.size * one)
