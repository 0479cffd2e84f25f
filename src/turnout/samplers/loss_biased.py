"""Samplers that prefer clients with large losses. They are biased: for algorithms that take the mean over their cohort."""

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
from turnout.samplers.base import Sampler, check_size
from turnout.samplers.draw_by_draw import gumbel_scores
from turnout.samplers.in_double import in_double


@record
class PowerOfChoice(Sampler):
    """Power-of-choice: the K clients with the highest losses among d candidates (pow-d; Cho, Wang and Joshi, 2020, section 3).

    The candidates are drawn with probabilities lambda_i without replacement and report their loss f_i(x) at the parameters sent.
    They are charged the message down and one scalar up. Candidates whose answer is lost or not finite are not drawn. The state is
    the losses of the last candidates [n], -inf for all other clients.

    Args:
        size: K, the number of clients in a cohort.
        candidates: d >= K, the number of clients that report their loss.

    Raises:
        UserError: On binding, if K > d or d > n.

    Examples:
        >>> import jax, jax.numpy as jnp, turnout as t
        >>> population = t.Population(count=5)
        >>> sampler = t.PowerOfChoice(2, candidates=4).bind(population)
        >>> int(sampler.consulted_cohort(sampler.start(population), jax.random.key(0), population).size)
        4
        >>> losses, answered = jnp.array([3.0, 1.0, 2.0, 4.0, 0.0]), jnp.array([True, True, True, True, False])
        >>> state = sampler.observe_consulted(sampler.start(population), losses, answered, population)
        >>> sampler.draw(state, jax.random.key(0), population).ids.tolist()
        [3, 0]
    """

    size: Count = static()
    candidates: Count = static()

    consults_before_draw = True
    feedback_kind = "loss"
    supports_availability = True
    weights: ClassVar[str] = "lambda_i / sum of those drawn"

    def bind(self, population):
        check_size(self.candidates, population, "power-of-choice")
        if self.size > self.candidates:
            raise UserError(f"sampler 'power-of-choice' wants {self.size} of {self.candidates} candidates: raise candidates")
        return self

    def start(self, population):
        return jnp.full(population.count, -jnp.inf, jnp.result_type(float))

    @in_double
    def consulted_cohort(self, state, key, population):
        return largest(gumbel_scores(key, jnp.where(population.present, population.shares, 0)), self.candidates, population)

    def observe_consulted(self, state, losses, answered, population):
        return jnp.where(answered & jnp.isfinite(losses), losses, -jnp.inf).astype(state.dtype)

    def draw(self, state, key, population):
        return largest(state, self.size, population)


class Valuations(NamedTuple):
    """The last valuation v_i of each client [n], and which clients have one."""

    values: Float[Array, " n"]
    observed: Bool[Array, " n"]


@record
class Afl(Sampler):
    """Active Federated Learning: most of the K clients are drawn by a softmax of their losses (Goetz et al., 2019, Algorithm 1).

    v_i = sqrt(n_i) f_i(x) when client i was last drawn, with n_i its number of rows; a client never drawn has the largest known
    v_i. The share alpha_1 of clients with the smallest v_i is left out. Of the others, K - u are drawn without replacement with
    probabilities proportional to exp(alpha_2 v_i). Then u = ceil(alpha_3 K) are drawn uniformly from all remaining clients. Each
    reply carries f_i(x) as an additional scalar.

    Args:
        size: K, the number of clients in a cohort.
        dropped: alpha_1 in [0, 1].
        sharpness: alpha_2 >= 0, in units of 1 / v_i.
        uniform: alpha_3 in [0, 1].
        sizes: Set by `fit`: n_i [n].

    Raises:
        UserError: On fitting, if K > n; on binding, since the row counts need a problem.

    Examples:
        >>> import jax, turnout as t
        >>> problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
        >>> sampler = t.Afl(2).fit(problem)
        >>> state = sampler.start(problem.population)
        >>> cohort = sampler.draw(state, jax.random.key(0), problem.population)
        >>> int(cohort.size), cohort.biased
        (2, True)
    """

    size: Count = static()
    dropped: Share = 0.75
    sharpness: NonNegative = 0.01
    uniform: Share = 0.1
    sizes: Any = field(default=None, repr=False, kw_only=True)

    learns_from_feedback = True
    feedback_kind = "loss"
    supports_availability = True
    weights: ClassVar[str] = "lambda_i / sum of those drawn"

    def fit(self, problem):
        return replace(self, sizes=problem.sizes.astype(np.float64)).bind(problem.population)

    def bind(self, population):
        check_size(self.size, population, "afl")
        if self.sizes is None:
            raise UserError("sampler 'afl' needs the clients' numbers of rows: fit it to a problem")
        return self

    def start(self, population):
        return Valuations(jnp.zeros(population.count, jnp.result_type(float)), jnp.zeros(population.count, bool))

    def observe(self, state, cohort, feedback):
        places = jnp.where(cohort.active, cohort.ids, state.values.size)
        values = jnp.sqrt(jnp.asarray(self.sizes, feedback.dtype)[cohort.ids]) * feedback
        return Valuations(
            state.values.at[places].set(values.astype(state.values.dtype), mode="drop"),
            state.observed.at[places].set(True, mode="drop"),
        )

    @in_double
    def draw(self, state, key, population):
        dtype, present = jnp.result_type(float), population.present
        ties, noise, rest = jax.random.uniform(key, (3, population.count), dtype, jnp.finfo(dtype).tiny)
        best = jnp.max(state.values, where=state.observed, initial=-jnp.inf)
        values = jnp.where(state.observed, state.values, jnp.where(jnp.any(state.observed), best, 0))
        least = jnp.floor(jnp.asarray(self.dropped, dtype) * jnp.sum(present, dtype=dtype))
        eligible = present & (rank(jnp.where(present, values, jnp.inf), ties) >= least)
        # The factor below 1 absorbs rounding, so that 0.1 times 10 gives 1.
        uniform = jnp.ceil(jnp.asarray(self.uniform, dtype) * self.size * (1 - 1e-6))
        # The largest values of log p_i plus Gumbel noise are draws without replacement.
        score = jnp.asarray(self.sharpness, dtype) * values - jnp.log(-jnp.log(noise))
        chosen = eligible & (rank(jnp.where(eligible, -score, jnp.inf), ties) < self.size - uniform)
        return largest(jnp.where(chosen, 2, jnp.where(present, rest, -jnp.inf)), self.size, population)


def rank(values: Float[Array, " n"], ties: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return the rank of each client in increasing order, from 0; `ties` decides between equal values.

    Args:
        values: One number for each client [n].
        ties: Different numbers for all clients [n].
    """
    return jnp.argsort(jnp.lexsort((ties, values))).astype(values.dtype)


def largest(scores: Float[Array, " n"], size: int, population: Population) -> Cohort:
    """Return the biased cohort of the `size` clients with the largest scores above -inf.

    Args:
        scores: One number for each client [n]; -inf for clients that cannot be drawn.
        size: K, the number of clients in a cohort.
        population: The clients, their weights, and who is available.
    """
    top, ids = lax.top_k(scores, size)
    return Cohort.of(ids, 1.0, population, selection="arbitrary", active=top > -jnp.inf, biased=True)
