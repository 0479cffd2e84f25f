"""`NumpyOracle`: a loss and its gradient as NumPy functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from turnout.core.errors import UserError
from turnout.problems.oracles.base import ALL, Oracle


@dataclass(frozen=True)
class NumpyOracle(Oracle):
    """f_i and its gradient as two functions of (x, rows), each a mean over these rows.

    `rows` is `slice(None)` for all rows or an array of row numbers, so that `features[rows]` works for both.

    Args:
        value_of: Returns the mean loss.
        gradient_of: Returns its gradient, structured as x.
        size: n_i, the number of rows, >= 1.
        correct: Returns for each row whether x classifies it correctly [b]; None if rows have no classes.

    Examples:
        >>> import numpy as np
        >>> import turnout as t
        >>> A, b = np.eye(2), np.array([1.0, 2.0])
        >>> oracle = t.NumpyOracle(
        ...     lambda x, rows: np.mean((A[rows] @ x - b[rows]) ** 2) / 2,
        ...     lambda x, rows: A[rows].T @ (A[rows] @ x - b[rows]) / len(b[rows]),
        ...     size=2,
        ... )
        >>> oracle.value_and_grad(np.zeros(2), slice(None))[1].tolist()
        [-0.5, -1.0]
    """

    value_of: Callable[[Any, Any], float]
    gradient_of: Callable[[Any, Any], Any]
    size: int
    correct: Callable[[Any, Any], Any] | None = None

    returns_new_arrays: ClassVar[bool] = True

    def __post_init__(self):
        if self.size < 1:
            raise UserError(f"a client has at least one row, but NumpyOracle was given size = {self.size}")

    def value(self, x, rows):
        return self.value_of(x, rows)

    def value_and_grad(self, x, rows):
        return self.value_of(x, rows), jax.tree.map(np.array, self.gradient_of(x, rows))

    def accuracy(self, x):
        return super().accuracy(x) if self.correct is None else float(self.correct(x, ALL).mean())
