"""`GroupedOracle`: a client's loss, which is no JAX function, of the shared leaves of a model with groups."""

from typing import Any

import numpy as np

from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.problems.oracles.base import Oracle
from turnout.problems.oracles.wrapped_oracle import WrappedOracle
from turnout.problems.row_sums import Point


def at_points(oracle: Oracle, problem: Any) -> Oracle:
    """Return an oracle where the model has groups, so that it is asked at a `Point`.

    Args:
        oracle: The oracle of the whole model.
        problem: The `Grouped` problem.

    Raises:
        UserError: If the oracle has no gradients, along a part of which it could answer.
    """
    if not oracle.has_gradients:
        raise UserError(f"a client with {type(oracle).__name__} trains its whole model: leave the groups of the model out")
    return oracle if oracle.asked_at_points else GroupedOracle(oracle, problem)


class GroupedOracle(WrappedOracle):
    """An oracle that is asked at a `Point`, and answers along what varies there.

    Args:
        oracle: The oracle of the whole model.
        problem: The `Grouped` problem, which knows the structure of the model.
    """

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

    def _whole(self, x: Point) -> Any:
        return self.problem.whole({**x.fixed, **x.varied})

    def _along(self, x: Point, tree: Any) -> dict[str, Any]:
        leaves = leaves_by_name(tree)
        return {name: leaves[name] for name in x.varied}
