"""Simulated loss of replies."""

from typing import Annotated, Literal

import annotated_types as at
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from turnout.core.records import record, static


@record
class Faults:
    """Replies that are lost independently of each other.

    Args:
        loss: Probability that a reply is lost, in [0, 1).
        missing: What follows. "raise" stops the run with an error; "skip" leaves the client out of this exchange, its state
            unchanged; "repeat" asks it again until it answers, and charges each time.

    Examples:
        >>> import turnout as t
        >>> algorithm, faults = t.MbGd(t.Full(), lr=0.1), t.Faults(0.5, "skip")
        >>> totals = t.run(algorithm, t.Quadratic.random(12, 5), rounds=10, faults=faults).ledger.totals()
        >>> totals["contacts"], 40 < totals["arrivals"] < 80
        (120, True)
    """

    example = "t.Faults(loss=0.1)"

    loss: Annotated[float, at.Ge(0), at.Lt(1)] = 0.0
    missing: Literal["raise", "skip", "repeat"] = static(default="raise")

    @property
    def repeats(self) -> bool:
        """Whether a client whose reply is lost is asked again."""
        return self.missing == "repeat"

    def losses(self, key, ids: Int[Array, " m"]) -> Int[Array, " m"]:
        """Return how often in a row each client's reply is lost before one arrives: geometric, P(at least one) = loss.

        Args:
            key: Random key.
            ids: Ids of the clients [m].
        """
        uniform = jax.vmap(lambda i: jax.random.uniform(jax.random.fold_in(key, i), minval=1e-30))(ids)
        loss = jnp.asarray(self.loss, uniform.dtype)
        ratio = jnp.log(uniform) / jnp.log(jnp.where(loss > 0, loss, 0.5))
        return jnp.where(loss > 0, jnp.floor(ratio), 0).astype("int32")
