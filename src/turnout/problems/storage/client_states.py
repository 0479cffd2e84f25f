"""What is kept for each client, stacked [n, ...]: looked up for a cohort, and written back."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, PyTree

from turnout.core.cohort import Cohort


def look_up(clients: PyTree, cohort: Cohort) -> tuple[PyTree, Int[Array, " m"]]:
    """Return the states of a cohort's clients, [m, ...], and the cohort's ids, which depend on this lookup.

    The lookup is a branch, which XLA does not fuse with the operations around it. Otherwise XLA would look the states up again
    after the cohort's new ones are written, and would copy the states of all clients in every round to do so.

    Args:
        clients: States of all clients [n, ...].
        cohort: The cohort.
    """
    if not jax.tree.leaves(clients):
        return clients, cohort.ids

    def states(clients):
        return jax.tree.map(lambda leaf: leaf[cohort.ids], clients), cohort.ids

    def zeros(clients):
        return jax.tree.map(jnp.zeros_like, jax.eval_shape(states, clients))

    # The predicate must not be a constant: XLA would remove the branch.
    return lax.cond(jnp.any(cohort.active & (cohort.ids >= 0)), states, zeros, clients)


def write(clients: PyTree, states: PyTree, ids: Int[Array, " m"], answered: Bool[Array, " m"]) -> PyTree:
    """Return the states of all clients [n, ...] with those of the clients that answered replaced.

    Args:
        clients: States of all clients [n, ...].
        states: New states of a cohort's clients [m, ...].
        ids: Ids of the cohort, as `look_up` returned them.
        answered: Places whose state is stored [m].
    """

    def put(old, new):
        return old.at[jnp.where(answered, ids, old.shape[0])].set(new.astype(old.dtype), mode="drop")

    return jax.tree.map(put, clients, states)
