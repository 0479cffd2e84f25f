"""Names of the leaves of a pytree."""

from typing import Any

import jax
from jaxtyping import PyTree

from turnout.core.errors import UserError


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
