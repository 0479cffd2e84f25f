"""Samplers that favour clients with large losses: biased, for algorithms that take the mean over their cohort."""

from dataclasses import field, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Count, NonNegative, Share, record, static
from turnout.problems.base import Population
from turnout.samplers.base import Sampler, needs_at_most
from turnout.samplers.successive import race


@record
class PowerOfChoice(Sampler):
    """d = `candidates` clients are drawn without replacement by chances lambda_i and asked for their loss f_i(x), and those
    K = `size` take part whose losses are the highest.

    pow-d of Cho, Wang and Joshi (2020), section 3, biased towards large losses. The message goes down to all candidates, x being
    the parameters that it carries, and one scalar comes up from each. Candidates whose answer is lost or not a number stay out.
    The state is the losses of the last candidates [n], -inf for all others.
    """

    size: Count = static()
    candidates: Count = static()

    consults_before_draw = True
    feedback_kind = "loss"
    supports_availability = True
    weights: ClassVar[str] = "lambda_i / sum of those drawn"

    def bind(self, population):
        needs_at_most(self.candidates, population, "power-of-choice")
        if self.size > self.candidates:
            raise UserError(f"sampler 'power-of-choice' wants {self.size} of {self.candidates} candidates: raise candidates")
        return self

    def start(self, population):
        return jnp.full(population.count, -jnp.inf, jnp.result_type(float))

    def consulted_cohort(self, state, key, population):
        return largest(race(key, jnp.where(population.present, population.shares, 0)), self.candidates, population)

    def observe_consulted(self, state, losses, answered, population):
        return jnp.where(answered & jnp.isfinite(losses), losses, -jnp.inf).astype(state.dtype)

    def draw(self, state, key, population):
        return largest(state, self.size, population)


class Valued(NamedTuple):
    """The last valuation v_i of each client [n], and who has one."""

    values: Float[Array, " n"]
    seen: Bool[Array, " n"]


@record
class Afl(Sampler):
    """K = `size` clients, most of them by chances proportional to exp(sharpness v_i), v_i = sqrt(n_i) f_i(x) when last drawn.

    Active Federated Learning (Goetz et al., 2019, Algorithm 1): the share `dropped` = alpha_1 with the smallest v_i is left out,
    K - u are drawn without replacement by that softmax, `sharpness` being alpha_2, and u from all others alike, u being
    alpha_3 K = `uniform` K rounded up. Each reply carries f_i(x) as a further scalar, x being the parameters that were sent; v_i
    is the client's total loss over sqrt(n_i). Who was never drawn has the largest v_i of those who were. It is biased towards
    large losses.
    """

    size: Count = static()
    dropped: Share = 0.75
    sharpness: NonNegative = 0.01
    uniform: Share = 0.1
    sizes: Any = field(default=None, repr=False)

    learns_from_feedback = True
    feedback_kind = "loss"
    supports_availability = True
    weights: ClassVar[str] = "lambda_i / sum of those drawn"

    def fit(self, problem):
        return replace(self, sizes=problem.sizes.astype(np.float64)).bind(problem.population)

    def bind(self, population):
        needs_at_most(self.size, population, "afl")
        if self.sizes is None:
            raise UserError("sampler 'afl' needs the clients' numbers of rows: fit it to a problem")
        return self

    def start(self, population):
        return Valued(jnp.zeros(population.count, jnp.result_type(float)), jnp.zeros(population.count, bool))

    def observe(self, state, cohort, feedback):
        places = jnp.where(cohort.active, cohort.ids, state.values.size)
        values = jnp.sqrt(jnp.asarray(self.sizes, feedback.dtype)[cohort.ids]) * feedback
        return Valued(
            state.values.at[places].set(values.astype(state.values.dtype), mode="drop"),
            state.seen.at[places].set(True, mode="drop"),
        )

    def draw(self, state, key, population):
        dtype, here = state.values.dtype, population.present
        ties, noise, rest = jax.random.uniform(key, (3, population.count), dtype, jnp.finfo(dtype).tiny)
        best = jnp.max(state.values, where=state.seen, initial=-jnp.inf)
        values = jnp.where(state.seen, state.values, jnp.where(jnp.any(state.seen), best, 0))
        least = jnp.floor(jnp.asarray(self.dropped, dtype) * jnp.sum(here, dtype=dtype))
        kept = here & (rank(jnp.where(here, values, jnp.inf), ties) >= least)
        # A few roundings less, so that 0.1 times 10 is 1.
        alike = jnp.ceil(jnp.asarray(self.uniform, dtype) * self.size * (1 - 1e-6))
        # The largest of log p_i + Gumbel noise are draws without replacement.
        score = jnp.asarray(self.sharpness, dtype) * values - jnp.log(-jnp.log(noise))
        chosen = kept & (rank(jnp.where(kept, -score, jnp.inf), ties) < self.size - alike)
        return largest(jnp.where(chosen, 2, jnp.where(here, rest, -jnp.inf)), self.size, population)


def rank(values: Float[Array, " n"], ties: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return how many others come before each client in increasing order, `ties` deciding between equals."""
    return jnp.argsort(jnp.lexsort((ties, values))).astype(values.dtype)


def largest(scores: Float[Array, " n"], size: int, population: Population) -> Cohort:
    """Return the biased cohort of the `size` clients with the largest scores, of those above -inf."""
    top, ids = lax.top_k(scores, size)
    return Cohort.of(ids, 1.0, population, selection="arbitrary", active=top > -jnp.inf, biased=True)
