"""`GroupedOracle`: a client's loss, which is no JAX function, of the shared leaves of a model with groups."""

from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np

from turnout.core.leaf_names import leaves_by_name
from turnout.problems.oracles.base import Oracle
from turnout.problems.row_sums import Point


class GroupedOracle(Oracle):
    """An oracle that is asked at a `Point`, and answers along what varies there.

    Args:
        oracle: The oracle of the whole model.
        problem: The `Grouped` problem, which knows the structure of the model.
    """

    def __init__(self, oracle: Oracle, problem: Any):
        self.oracle, self.problem, self.size = oracle, problem, oracle.size

    @property
    def returns_new_arrays(self) -> bool:  # type: ignore
        """Whether every returned array is new."""
        return self.oracle.returns_new_arrays

    def value(self, x: Point, rows):
        return self.oracle.value(self._whole(x), rows)

    def value_and_grad(self, x: Point, rows):
        value, gradient = self.oracle.value_and_grad(self._whole(x), rows)
        return value, self._along(x, gradient)

    def hvp(self, x: Point, v, rows):
        nothing = {name: np.zeros_like(leaf) for name, leaf in x.fixed.items()}
        return self._along(x, self.oracle.hvp(self._whole(x), self.problem.whole({**nothing, **v}), rows))

    def accuracy(self, x: Point):
        return self.oracle.accuracy(self._whole(x))

    def saved(self, x):
        return self.oracle.saved(x)

    @contextmanager
    def local_work(self, key):
        with self.oracle.local_work(key) as oracle:
            inside = copy(self)
            inside.oracle = oracle
            yield inside

    def evaluating(self):
        return self.oracle.evaluating()

    def _whole(self, x: Point) -> Any:
        return self.problem.whole({**x.fixed, **x.varied})

    def _along(self, x: Point, tree: Any) -> dict[str, Any]:
        leaves = leaves_by_name(tree)
        return {name: leaves[name] for name in x.varied}
