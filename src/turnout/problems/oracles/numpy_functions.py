"""A loss and its gradient as two NumPy functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turnout.core.errors import UserError
from turnout.problems.oracles.base import ALL, Oracle


@dataclass(frozen=True)
class NumpyOracle(Oracle):
    """f_i and its gradient as functions of (x, rows), `rows` being what to index the client's `size` rows with.

    `rows` is `slice(None)` for all rows, else an array of row numbers; both functions take the mean over these.
    `correct(x, rows)` tells, where the rows have classes, which of them x classifies correctly.
    """

    value_of: Callable[[Any, Any], float]
    gradient_of: Callable[[Any, Any], Any]
    size: int
    correct: Callable[[Any, Any], Any] | None = None

    def __post_init__(self):
        if self.size < 1:
            raise UserError(f"a client has at least one row, but NumpyOracle was given size = {self.size}")

    def value(self, x, rows):
        return self.value_of(x, rows)

    def value_and_grad(self, x, rows):
        return self.value_of(x, rows), self.gradient_of(x, rows)

    def accuracy(self, x):
        return super().accuracy(x) if self.correct is None else float(self.correct(x, ALL).mean())
