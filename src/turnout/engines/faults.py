"""Replies that get lost, and what is done about it."""

from typing import Annotated, Literal

import annotated_types as at
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from turnout.core.records import record, static


@record
class Faults:
    """Each reply is lost with probability `loss`; `missing` says what then happens.

    "raise" stops the run with an error; "skip" leaves the client out of this exchange, its state unchanged; "repeat" asks it
    again until it answers, and charges each time.
    """

    example = "t.Faults(loss=0.1)"

    loss: Annotated[float, at.Ge(0), at.Lt(1)] = 0.0
    missing: Literal["raise", "skip", "repeat"] = static(default="raise")

    @property
    def repeats(self) -> bool:
        return self.missing == "repeat"

    def losses(self, key, ids: Int[Array, " m"]) -> Int[Array, " m"]:
        """How many times in a row each client's reply is lost before one arrives: geometric, P(at least one) = loss."""
        uniform = jax.vmap(lambda i: jax.random.uniform(jax.random.fold_in(key, i), minval=1e-30))(ids)
        loss = jnp.asarray(self.loss, uniform.dtype)
        ratio = jnp.log(uniform) / jnp.log(jnp.where(loss > 0, loss, 0.5))
        return jnp.where(loss > 0, jnp.floor(ratio), 0).astype("int32")
