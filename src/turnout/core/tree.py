"""Arithmetic of parameters, leaf by leaf, and such as is safe where nothing is there to be counted."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree


def positive(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return a where it is above zero, else 1, to divide by."""
    return jnp.where(a > 0, a, 1)


def add(x: PyTree, step: PyTree, factor=1.0) -> PyTree:
    """x + factor step, leaf by leaf."""
    # Where a client's loss is none of JAX, NumPy takes memory that was used before, and XLA fresh pages for each step.
    if all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(step)) and not isinstance(factor, Tracer):
        factor = np.asarray(factor) if isinstance(factor, jax.Array) else factor
        if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(x)):
            return jax.tree.map(lambda x, step: _added(np.asarray(x), np.asarray(factor * step)), x, step)
    return _add(x, step, factor)


# Outside of compiled programs one dispatch serves all leaves; inside it leaves no trace.
@partial(jax.jit, inline=True)
def _add(x: PyTree, step: PyTree, factor) -> PyTree:
    return jax.tree.map(lambda x, step: x + factor * step, x, step)


def _added(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """x + step, in the memory of `step` where it fits."""
    return np.add(x, step, out=step) if x.dtype == step.dtype and x.shape == step.shape else np.asarray(x + step)


def zeros(x: PyTree) -> PyTree:
    """Return zeros like the parameters x."""
    return jax.tree.map(jnp.zeros_like, x)
