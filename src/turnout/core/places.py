"""Places that a condition holds for."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


def places_of(holds: Bool[Array, " n"], ranks: Int[Array, " m"]) -> Int[Array, " m"]:
    """Return where the condition holds for the first time, for the second and so on, and n where it does not so often.

    Args:
        holds: Whether it holds at each place [n].
        ranks: 1 for the first time, 2 for the second [m].
    """
    return jnp.searchsorted(jnp.cumsum(holds, dtype="int32"), ranks.astype("int32")).astype("int32")
