"""Arrays whose types do not change when they are carried through a loop."""

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.core.client import Done


def strongly_typed(tree: PyTree) -> PyTree:
    """Return `tree` as arrays without weak types, so that a loop over rounds keeps their types."""
    return jax.tree.map(_strongly, tree)


def _strongly(leaf) -> jax.Array:
    leaf = jnp.asarray(leaf)
    return jax.lax.convert_element_type(leaf, leaf.dtype) if leaf.weak_type else leaf


def completed(done: Done, state: PyTree) -> Done:
    """Return the result of a local method with all parts filled in; a state not returned is the old `state`.

    Args:
        done: Result of the local method.
        state: Private state before.
    """
    return Done(
        strongly_typed(done.reply),
        strongly_typed(state if done.state is None else done.state),
        jnp.asarray(done.queries, "int32"),
        jnp.asarray(done.missed, "int32"),
    )
