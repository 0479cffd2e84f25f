"""Arithmetic of parameters, leaf by leaf, and such as is safe where nothing is there to be counted."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree


def positive(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return a where it is above zero, else 1, to divide by."""
    return jnp.where(a > 0, a, 1)


# Outside of compiled programs one dispatch serves all leaves; inside it leaves no trace.
@partial(jax.jit, inline=True)
def add(x: PyTree, step: PyTree, factor=1.0) -> PyTree:
    """x + factor step, leaf by leaf."""
    return jax.tree.map(lambda x, step: x + factor * step, x, step)


def zeros(x: PyTree) -> PyTree:
    """Return zeros like the parameters x."""
    return jax.tree.map(jnp.zeros_like, x)
