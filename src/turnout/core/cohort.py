"""A cohort: the clients that one draw selected, with all that is needed to weight their replies."""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from turnout.core.records import record, static

Selection = Literal["arbitrary", "random", "delegate"]


@record
class Cohort:
    """m places, of which the `active` ones hold drawn clients; a random cohort size leaves places empty.

    `expansion` is how many clients each one stands for: 1 / p_i with p_i = `probability`, its inclusion probability, or with
    replacement (times drawn) / p_i, p_i being the expected number of times; E[sum_{i in S} expansion_i r_i] = sum_i r_i.
    `weight` is lambda_i times that, with lambda_i = `share` the client's weight in the objective, so that
    sum_{i in S} weight_i r_i is unbiased for sum_i lambda_i r_i, unless the cohort is `biased`: drawn by a law that is not known.
    `selections` counts how many selections of kind `selection` the draw is charged: a full pass over n clients, m at
    a time, is ceil(n/m) arbitrary ones. `lost` counts clients that were drawn but did not fit in the m places, `available` those
    that could have been drawn.
    """

    ids: Int[Array, " m"]
    active: Bool[Array, " m"]
    probability: Float[Array, " m"]
    expansion: Float[Array, " m"]
    share: Float[Array, " m"]
    weight: Float[Array, " m"]
    selections: Int[Array, ""]
    lost: Int[Array, ""]
    available: Int[Array, ""]
    selection: Selection = static()
    biased: bool = static(default=False)

    @classmethod
    def of(
        cls,
        ids,
        probability,
        population,
        *,
        selection: Selection,
        active=None,
        expansion=None,
        selections=1,
        lost=0,
        biased=False,
    ) -> "Cohort":
        """Build a cohort of `ids` [m] drawn with inclusion `probability` (a number or [m]) from those available.

        Where clients are available by chance only, that chance is part of the inclusion probability (K-Vib, appendix E.1).
        """
        ids = jnp.asarray(ids, "int32")
        share = jnp.broadcast_to(population.share(ids), ids.shape)
        probability = jnp.broadcast_to(jnp.asarray(probability, share.dtype), ids.shape)
        expansion = 1 / probability if expansion is None else jnp.asarray(expansion, share.dtype)
        available = population.count
        if population.available is not None:
            presence = population.presence[ids].astype(share.dtype)
            probability, expansion = probability * presence, expansion / presence
            available = jnp.sum(population.available)
        return cls(
            ids=ids,
            active=jnp.ones(ids.shape, bool) if active is None else active,
            probability=probability,
            expansion=expansion,
            share=share,
            weight=share * expansion,
            selections=jnp.asarray(selections, "int32"),
            lost=jnp.asarray(lost, "int32"),
            available=jnp.asarray(available, "int32"),
            selection=selection,
            biased=biased,
        )

    @property
    def places(self) -> int:
        """The number of places m."""
        return self.ids.shape[0]

    @property
    def size(self) -> Int[Array, ""]:
        """The number of clients drawn into the m places."""
        return jnp.sum(self.active, dtype="int32")
