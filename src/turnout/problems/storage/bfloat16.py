"""Mixed precision: losses computed in bfloat16, parameters in another type."""

from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from turnout.problems.base import Problem
from turnout.problems.row_sums import Point


class MixedPrecision:
    """The losses of `problem` computed in bfloat16 (Micikevicius et al., Mixed precision training, 2018, section 3.1).

    Parameters, rows and the loss of each row are rounded to bfloat16; sums over rows and gradients have the types of the
    parameters, and statistics that training moves keep theirs. bfloat16 has the range of float32, so no loss has to be scaled.
    """

    def __init__(self, problem: Problem):
        # Losses get their rows as an argument; the problem's own ones, which are many, are dropped.
        bare = copy(problem)
        object.__setattr__(bare, "rows", ())
        self._problem = rounded(bare)
        self.regulariser, self.mixes_rows = problem.regulariser, problem.mixes_rows
        self.activation_bytes, self.rows_at_once = problem.activation_bytes, problem.rows_at_once
        self.statistics, self.trains_apart = problem.statistics, problem.trains_apart

    def losses(self, x: PyTree, rows: PyTree, **counted) -> Float[Array, " b"]:
        """Return the loss of each of b rows, computed in bfloat16, in the default type."""
        return self._problem.losses(rounded(x), rounded(rows), **counted).astype(jnp.result_type(float))

    def training(self, x: Point, rows: PyTree, counted: Bool[Array, " b"], key) -> tuple[Float[Array, " b"], dict[str, Array]]:
        """Return the loss of each of b rows in training, computed in bfloat16, in the default type, and the new statistics.

        Args:
            x: Parameters.
            rows: A batch of b rows: arrays with the first axis b.
            counted: Which rows are not padding [b].
            key: Random key of this pass.
        """
        kept = {name: leaf for name, leaf in x.fixed.items() if name in self.statistics}
        low = rounded(x)
        at = Point(low.varied, {**low.fixed, **kept}, key)
        losses, statistics = self._problem.training(at, rounded(rows), counted, key)
        whole = {name: leaf.astype(kept[name].dtype) for name, leaf in statistics.items()}
        return losses.astype(jnp.result_type(float)), whole


def rounded(tree: PyTree) -> PyTree:
    """Return `tree` with its floating-point arrays in bfloat16."""

    def low(leaf) -> Any:
        floating = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, jnp.bfloat16) if floating else leaf

    return jax.tree.map(low, tree)
