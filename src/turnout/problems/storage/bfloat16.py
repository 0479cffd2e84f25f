"""Losses in bfloat16, whatever the parameters are held in."""

from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.problems.base import Problem


class MixedPrecision:
    """`problem` for an oracle: the parameters and rows that losses are computed from are rounded to bfloat16, and so is the loss
    of each row; sums over rows, and the gradient that comes out, are in the types that parameters are held in.

    Micikevicius et al. (2018), section 3.1; bfloat16 has the range of float32, so that no loss needs to be scaled.
    """

    def __init__(self, problem: Problem):
        # Its own rows are not those that losses are asked for, and are many.
        bare = copy(problem)
        object.__setattr__(bare, "rows", ())
        self._problem = rounded(bare)
        self.regulariser, self.mixes_rows = problem.regulariser, problem.mixes_rows
        self.activation_bytes, self.rows_at_once = problem.activation_bytes, problem.rows_at_once

    def losses(self, x: PyTree, rows: PyTree, **counted) -> Float[Array, " b"]:
        """Return the loss of each of b rows, computed in bfloat16."""
        return self._problem.losses(rounded(x), rounded(rows), **counted).astype(jnp.result_type(float))


def rounded(tree: PyTree) -> PyTree:
    """Return `tree` with its arrays of floating-point numbers in bfloat16."""

    def low(leaf) -> Any:
        floating = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, jnp.bfloat16) if floating else leaf

    return jax.tree.map(low, tree)
