"""DivFL: a cohort whose gradients stand for those of all clients. It is biased."""

from dataclasses import field, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Count, record, static
from turnout.samplers.base import check_size
from turnout.samplers.by_gradients import ByGradients, with_lost_ones
from turnout.samplers.full import Full
from turnout.samplers.in_double import in_double


@record
class DivFl(ByGradients):
    """DivFL: K clients whose gradients are close to those of all clients (Balakrishnan et al., 2022, section 3 and Algorithm 1).

    The cohort S is chosen greedily to minimise

    sum_i lambda_i min_{j in S} |g_i - g_j|, which bounds |sum_i lambda_i g_i - sum_{j in S} gamma_j g_j|,

    where gamma_j adds up the lambda_i of the clients that are nearest to j. Each of K steps takes the client that lowers the sum
    most, with `candidates` among so many uniform ones of those left (stochastic greedy; Mirzasoleiman et al., 2015). g_i is
    grad f_i(x), for which all clients are asked, and charged, before round 1 and then every `every` rounds: samplers do not see
    the replies of earlier rounds, which the paper can take instead. The state is the distances [n, n].

    The cohort has no known probabilities, so `average()` refuses it, and `mean()` weighs it by lambda_j, not by gamma_j.

    Args:
        size: K, the number of clients in a cohort.
        candidates: Number of clients of which each step takes the best one; None looks at all.
        every: Rounds between gradients.
        everyone: Set by `bind`: the sampler of the full pass.

    Raises:
        UserError: On binding, if K or `candidates` exceed the number of clients.

    Examples:
        >>> import jax, jax.numpy as jnp, turnout as t
        >>> population = t.Population(count=4)
        >>> sampler, gradients = t.DivFl(2).bind(population), jnp.array([[0.0], [0.1], [0.2], [5.0]])
        >>> state = sampler.learned(sampler.start(population), gradients, jnp.ones(4, bool), population.shares)
        >>> sampler.draw(state, jax.random.key(0), population).ids.tolist()
        [1, 3]
    """

    size: Count = static()
    candidates: Count | None = static(default=None)
    every: Count = 1
    everyone: Full = field(default=Full(), repr=False, kw_only=True)

    weights: ClassVar[str] = "lambda_i / sum of those drawn"

    def bind(self, population):
        check_size(self.size, population, "divfl")
        if self.candidates is not None and self.candidates > population.count:
            raise UserError(
                f"sampler 'divfl' wants {self.candidates} candidates, but there are {population.count}: lower candidates"
            )
        return replace(self, everyone=Full(size=self.size).bind(population))

    def start(self, population):
        return jnp.zeros((population.count, population.count), jnp.result_type(float))

    def learned(self, state, vectors, answered, shares):
        vectors = with_lost_ones(vectors, answered)
        return lax.map(lambda own: jnp.linalg.norm(vectors - own[None], axis=1), vectors).astype(state.dtype)

    @in_double
    def draw(self, state, key, population):
        shares, count = population.shares, population.count

        def step(before, key):
            nearest, free = before
            gains = shares @ jnp.maximum(nearest[:, None] - state, 0)
            eligible = free
            if self.candidates is not None:
                noise = jnp.where(free, jax.random.uniform(key, free.shape, gains.dtype), -1)
                eligible = free & (noise >= lax.top_k(noise, self.candidates)[0][-1])
            chosen = jnp.argmax(jnp.where(eligible, gains, -1)).astype("int32")
            return (jnp.minimum(nearest, state[:, chosen]), free.at[chosen].set(False)), chosen

        # Nobody is farther from an empty cohort than from any client.
        first = jnp.full(count, jnp.max(state)), jnp.ones(count, bool)
        _, ids = lax.scan(step, first, jax.random.split(key, self.size))
        return Cohort.of(ids, 1.0, population, selection="arbitrary", biased=True)
