"""Arithmetic that is safe where nothing is there to be counted."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def positive(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return a where it is above zero, else 1, to divide by."""
    return jnp.where(a > 0, a, 1)
