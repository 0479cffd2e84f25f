"""Uniform cohorts of a fixed size."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from turnout.core.cohort import Cohort
from turnout.core.permutation import permute
from turnout.core.places import places_of
from turnout.core.records import Count, record, static
from turnout.samplers.base import Sampler, check_size
from turnout.samplers.fixed_size import hajek_variance
from turnout.samplers.in_double import in_double


@record
class Nice(Sampler):
    """Uniform sampling without replacement: every subset of K clients is equally likely, p_i = K / n ("tau-nice sampling").

    If only m < n clients are available, p_i = min(1, K / m). A draw from all clients costs O(K). Source: Cohort Squeeze (Yi et
    al., 2024), section 2.

    Args:
        size: K, the number of clients in a cohort.

    Raises:
        UserError: On binding, if there are fewer than K clients.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=10)
        >>> cohort = t.Nice(4).bind(population).draw(None, jax.random.key(0), population)
        >>> int(cohort.size), cohort.expansion.tolist()
        (4, [2.5, 2.5, 2.5, 2.5])
    """

    size: Count = static()

    supports_availability = True
    supports_in_flight = True
    draws_ahead = True

    def bind(self, population):
        check_size(self.size, population, "nice")
        return self

    @in_double
    def draw(self, state, key, population):
        n, available, busy = population.count, population.available, population.in_flight
        if available is None and busy is not None:
            ids, active = self._idle(key, n, busy)
            p = jnp.minimum(1, self.size / (n - jnp.sum(busy < n)))
            return Cohort.of(ids, p, population, selection="random", active=active)
        if available is None:
            return Cohort.of(permute(key, jnp.arange(self.size), n), self.size / n, population, selection="random")
        _, ids = lax.top_k(jnp.where(available, jax.random.uniform(key, (n,), float), -1), self.size)
        p = jnp.where(available[ids], self.expected_draws(state, population)[ids], 1)
        return Cohort.of(ids, p, population, selection="random", active=available[ids])

    def _idle(self, key, n: int, busy: Int[Array, " f"]) -> tuple[Int[Array, " K"], Bool[Array, " K"]]:
        """Return the first K clients without a request in a random order of all, and which of the K places have one.

        Args:
            key: Random key of the order.
            n: Number of clients.
            busy: Clients with a request; n for none.
        """

        def among(count: int) -> tuple[Int[Array, " K"], Bool[Array, " K"]]:
            first = permute(key, jnp.arange(count), n)
            free = ~jnp.any(first[:, None] == busy[None], axis=1)
            places = places_of(free, jnp.arange(1, self.size + 1, dtype="int32"))
            return first.at[places].get(mode="fill", fill_value=0), places < count

        few, most = 2 * self.size, min(self.size + busy.size, n)
        if n < 8 * busy.size or most <= few:
            return among(most)
        # At most one client of eight has a request, so that K of 2 K nearly always have none.
        idle = among(few)
        return lax.cond(jnp.all(idle[1]), lambda: idle, lambda: among(most))

    def expected_draws(self, state, population):
        n, dtype = population.count, jnp.result_type(float)
        if population.available is None:
            return jnp.full(n, self.size / n, dtype)
        m = jnp.sum(population.available, dtype=dtype)
        return jnp.where(population.available, jnp.minimum(1, self.size / m), 0)

    def variance(self, state, population, vectors):
        return hajek_variance(self.expected_draws(state, population), vectors)
