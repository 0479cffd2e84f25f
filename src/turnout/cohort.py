"""A cohort: the clients that one draw selected, with all that is needed to weight their replies."""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from turnout.records import record, static

Selection = Literal["arbitrary", "random", "delegate"]


@record
class Cohort:
    """m places, of which the `active` ones hold drawn clients; a random cohort size leaves places empty.

    `weight` is lambda_i / p_i, with lambda_i = `share` the client's weight in the objective and p_i = `probability` its
    inclusion probability, so that sum_{i in S} weight_i r_i is unbiased for sum_i lambda_i r_i.
    `selections` counts how many selections of kind `selection` the draw is charged: a full pass over n clients, m at
    a time, is ceil(n/m) arbitrary ones. `lost` counts clients that were drawn but did not fit in the m places.
    """

    ids: Int[Array, " m"]
    active: Bool[Array, " m"]
    probability: Float[Array, " m"]
    share: Float[Array, " m"]
    weight: Float[Array, " m"]
    selections: Int[Array, ""]
    lost: Int[Array, ""]
    selection: Selection = static()

    @classmethod
    def of(cls, ids, probability, population, *, selection: Selection, active=None, selections=1, lost=0) -> "Cohort":
        """Build a cohort of `ids` [m] drawn with inclusion `probability` (a number or [m]) from `population`."""
        ids = jnp.asarray(ids, "int32")
        share = jnp.broadcast_to(population.share(ids), ids.shape)
        probability = jnp.broadcast_to(jnp.asarray(probability, share.dtype), ids.shape)
        return cls(
            ids=ids,
            active=jnp.ones(ids.shape, bool) if active is None else active,
            probability=probability,
            share=share,
            weight=share / probability,
            selections=jnp.asarray(selections, "int32"),
            lost=jnp.asarray(lost, "int32"),
            selection=selection,
        )

    @property
    def places(self) -> int:
        """The number of places m."""
        return self.ids.shape[0]

    @property
    def size(self) -> Int[Array, ""]:
        """The number of clients drawn into the m places."""
        return jnp.sum(self.active, dtype="int32")
