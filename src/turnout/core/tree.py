"""Arithmetic of pytrees, leaf by leaf."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PyTree

from turnout.core.narrowing import narrowed


def positive(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return a where it is positive, else 1: a divisor that is never zero."""
    return jnp.where(a > 0, a, 1)


def add(x: PyTree, step: PyTree, factor=1.0) -> PyTree:
    """Return x + factor step, leaf by leaf.

    Args:
        x: A pytree of arrays.
        step: A pytree with the same structure.
        factor: Factor of `step`.
    """
    # For losses outside JAX, NumPy reuses memory, where XLA would take new pages in each step.
    steps, structure = jax.tree.flatten(step)
    if all(isinstance(leaf, np.ndarray) for leaf in steps) and not isinstance(factor, Tracer):
        starts = structure.flatten_up_to(x)
        if not any(isinstance(leaf, Tracer) for leaf in starts):
            factor = np.asarray(factor) if isinstance(factor, jax.Array) else factor
            return structure.unflatten(
                _added(np.asarray(x), np.asarray(factor * step)) for x, step in zip(starts, steps, strict=True)
            )
    return _add(x, step, factor)


# Outside of compiled programs this is one dispatch for all leaves; inside, the function is inlined.
@partial(jax.jit, inline=True)
def _add(x: PyTree, step: PyTree, factor) -> PyTree:
    return jax.tree.map(lambda x, step: x + factor * step, x, step)


def _added(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return x + step, in the memory of `step` where it fits."""
    return np.add(x, step, out=step) if x.dtype == step.dtype and x.shape == step.shape else np.asarray(x + step)


def mixture(share, x: PyTree, y: PyTree) -> PyTree:
    """Return share x + (1 - share) y, leaf by leaf.

    Args:
        share: Share of x.
        x: A pytree of arrays.
        y: A pytree with the same structure.
    """
    return jax.tree.map(lambda x, y: share * x + (1 - share) * y, x, y)


def where(condition: Bool[ArrayLike, ""], x: PyTree, y: PyTree) -> PyTree:
    """Return x where a condition holds, else y.

    Args:
        condition: The condition.
        x: A pytree of arrays.
        y: A pytree with the same structure.
    """
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), x, y)


def zeros(x: PyTree) -> PyTree:
    """Return zeros like the parameters x."""
    return jax.tree.map(jnp.zeros_like, x)


def on_device(leaf, kind=None):
    """Return an array or a number on the device; what comes from the host takes no program to get there.

    Args:
        leaf: An array or a number.
        kind: Type of the result; None keeps that of the leaf, or the one of 32 bits where JAX computes in these.

    Raises:
        UserError: A number is beyond the range of the type.
    """
    if isinstance(leaf, jax.Array):
        return jnp.asarray(leaf, kind)
    if isinstance(leaf, np.ndarray):
        kind = jax.dtypes.canonicalize_dtype(leaf.dtype) if kind is None else kind
        return jax.device_put(leaf if leaf.dtype == kind else narrowed(leaf, kind, "what the run is given"))
    return jax.device_put(leaf if kind is None else np.asarray(leaf, kind))


def bytes_of(x: PyTree) -> int:
    """Return the bytes of all arrays of a pytree, wherever they are."""
    return sum(getattr(leaf, "nbytes", 0) for leaf in jax.tree.leaves(x))
