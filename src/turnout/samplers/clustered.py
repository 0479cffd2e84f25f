"""Clustered sampling: each client of a cohort is drawn from a distribution of its own."""

from dataclasses import field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Count, record, static
from turnout.core.tree import positive
from turnout.samplers.base import check_size
from turnout.samplers.by_gradients import ByGradients, on_host, with_lost_ones
from turnout.samplers.full import Full
from turnout.samplers.in_double import in_double
from turnout.samplers.urns import urns_by_similarity, urns_by_weight


class Urns(NamedTuple):
    """m urns, laid side by side on [0, m]: the client of each segment, and where the segment ends.

    Urn k is [k, k + 1], and no segment lies in two urns. Unused segments are empty and at the end.
    """

    ids: Int[Array, " segments"]
    ends: Float[Array, " segments"]


@record
class Clustered(ByGradients):
    """Clustered sampling: one client from each of m distributions W_k, with sum_k W_ki = m lambda_i (Fraboni et al., 2021).

    A client that is drawn t times takes one place and counts t / (m lambda_i), so that the weighted sum is the mean of the m
    replies drawn, and unbiased. With u_i = v_i / (m lambda_i), the variance of the sum of v_i is

    sum_k (sum_i W_ki |u_i|^2 - |sum_i W_ki u_i|^2),

    which is at most that of m draws with replacement by lambda_i, and every client is drawn at least as likely (section 3).

    By "size" (Algorithm 1) the clients fill m urns of capacity 1 one after the other, i with m lambda_i, in decreasing order. By
    "gradients" (Algorithm 2) a client with m lambda_i >= 1 fills whole urns, and what is left is grouped by Ward's clustering of
    the angles between gradients, into the largest groups of weight at most 1. The heaviest groups have an urn each, and the
    clients of the others fill these. All clients are asked for gradients, which is charged, before round 1 and then every `every`
    rounds; the paper takes the clients' last changes, which samplers do not see.

    Args:
        size: m, the number of draws; a cohort has at most m clients.
        by: "size" or "gradients".
        every: With "gradients", make new urns every so many rounds; None makes them once.
        everyone: Set by `bind`: the sampler of the full pass.
        first: Set by `bind`: the urns by size, with which a run begins.

    Raises:
        UserError: If `every` is given without "gradients"; on binding, if m exceeds the number of clients.

    Examples:
        >>> import jax, numpy as np, turnout as t
        >>> population = t.Population(count=4, weights=np.array([0.25, 0.25, 0.4, 0.1]))
        >>> sampler = t.Clustered(2).bind(population)
        >>> state = sampler.start(population)
        >>> state.ids.tolist(), [round(float(end), 2) for end in state.ends]  # client 0 is in both urns
        ([2, 0, 0, 1, 3], [0.8, 1.0, 1.3, 1.8, 2.0])
        >>> int(sampler.draw(state, jax.random.key(0), population).size) <= 2
        True
    """

    size: Count = static()
    by: Literal["size", "gradients"] = static(default="size")
    every: Count | None = None
    everyone: Full | None = field(default=None, repr=False, kw_only=True)
    first: Any = field(default=None, repr=False, kw_only=True)

    replacement: ClassVar[str] = "with"
    weights: ClassVar[str] = "times / m"

    def __post_init__(self):
        if self.every is not None and self.by != "gradients":
            raise UserError("sampler 'clustered' makes new urns during a run by 'gradients' only: leave every out")

    def bind(self, population):
        check_size(self.size, population, "clustered")
        everyone = Full(size=self.size).bind(population) if self.by == "gradients" else None
        return replace(self, everyone=everyone, first=Urns(*urns_by_weight(population.lambdas, self.size)))

    def start(self, population):
        return Urns(jnp.asarray(self.first.ids), jnp.asarray(self.first.ends, jnp.result_type(float)))

    def refresh(self, state, ask, x):
        return state if self.by == "size" else super().refresh(state, ask, x)

    def learned(self, state, vectors, answered, shares):
        def urns(own, weights):
            return Urns(*urns_by_similarity(weights.astype(float), own.astype(float), self.size))

        return on_host(urns, state, with_lost_ones(vectors, answered), shares)

    @in_double
    def draw(self, state, key, population):
        urns = jnp.arange(self.size, dtype=state.ends.dtype)
        # Rounding must not lift a point out of its urn.
        points = jnp.minimum(urns + jax.random.uniform(key, urns.shape, urns.dtype), jnp.nextafter(urns + 1, urns))
        drawn = state.ids[jnp.searchsorted(state.ends, points, side="right")]
        ids, times = jnp.unique(drawn, size=self.size, fill_value=0, return_counts=True)
        active = times > 0
        mean = jnp.where(active, self.size * population.share(ids), 1)
        return Cohort.of(ids, mean, population, selection="arbitrary", active=active, expansion=times.astype(mean.dtype) / mean)

    def expected_draws(self, state, population):
        return self.size * population.shares

    def variance(self, state, population, vectors):
        lengths = jnp.diff(state.ends, prepend=0)[:, None].astype(vectors.dtype)
        each = (vectors / positive(self.size * population.shares)[:, None])[state.ids]
        urn = jnp.minimum(jnp.ceil(state.ends).astype("int32") - 1, self.size - 1)
        means = jax.ops.segment_sum(lengths * each, urn, self.size)
        return jnp.sum(lengths * each**2) - jnp.sum(means**2)
