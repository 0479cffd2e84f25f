"""Processes that play one run together: each computes the clients of its own devices, and the first one writes."""

import jax
import numpy as np
from jaxtyping import PyTree


def is_first() -> bool:
    """Return whether this is the first process, or the only one."""
    return jax.process_index() == 0


def agreed(own: PyTree) -> PyTree:
    """Return what the first process has, in all of them: what depends on the time or on chance must not differ."""
    if jax.process_count() == 1:
        return own
    from jax.experimental.multihost_utils import broadcast_one_to_all

    return jax.tree.map(np.asarray, broadcast_one_to_all(own))


def whole(parts: PyTree) -> PyTree:
    """Return arrays over the devices of all processes as arrays of this one; all of them have to ask."""
    if jax.process_count() == 1:
        return jax.tree.map(np.asarray, parts)
    from jax.experimental.multihost_utils import process_allgather

    return process_allgather(parts, tiled=True)
