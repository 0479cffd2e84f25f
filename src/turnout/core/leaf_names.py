"""Names of the leaves of a pytree."""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import PyTree

from turnout.core.errors import UserError

OwnLeaves = Callable[[int], dict[str, Any]] | None
"""A function from the number of a client to its personal leaves by name; None where there are none."""


def leaves_by_name(x: PyTree) -> dict[str, Any]:
    """Return the leaves of the parameters x by their paths, such as "hidden.weight", in their order; a single one is called "x".

    Args:
        x: Parameters.
    """
    named = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(x):
        name = ".".join(jax.tree_util.keystr((key,), simple=True) for key in path) or "x"
        if name in named:
            raise UserError(f"two parameters would be called {name!r}: rename one")
        named[name] = leaf
    return named


def with_leaves(x: PyTree, leaves: dict[str, Any]) -> PyTree:
    """Return the parameters x with the named leaves in the place of its own.

    Args:
        x: Parameters.
        leaves: New leaves by their names.
    """
    named = leaves_by_name(x)
    return jax.tree.unflatten(jax.tree.structure(x), [leaves.get(name, leaf) for name, leaf in named.items()])
