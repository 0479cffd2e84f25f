"""When a run is good enough."""

from typing import Any, Literal

import numpy as np

from turnout.accounting.prices import Columns
from turnout.core.records import Positive, record, static


@record
class Target:
    """`metric` < `below`; where it is an accuracy it is the error rate, 1 - accuracy, that `below` bounds.

    With `stop` the run ends at the first evaluation that meets it.
    """

    example = "t.Target('value', 0.1)"

    metric: Literal[
        "value", "gap", "gradient", "distance", "accuracy", "accuracy_10", "accuracy_50", "accuracy_90",
        "test_value", "test_accuracy", "held_out_value", "held_out_accuracy",
        "held_out_accuracy_10", "held_out_accuracy_50", "held_out_accuracy_90",
    ] = static()  # fmt: skip
    below: Positive
    stop: bool = static(default=False)

    def met(self, values) -> Any:
        """Return whether each of the metric's `values` meets the target."""
        return smaller_better(self.metric, values) < self.below

    def first_hit(self, columns: Columns) -> int | None:
        """Return the number of the first trace row that meets the target; None if there is none."""
        met = self.met(np.asarray(columns[self.metric]))
        return int(np.argmax(met)) if met.any() else None


def smaller_better(metric: str, values) -> Any:
    """Return the metric's `values` as they are, or where it is an accuracy the error rates."""
    return 1 - values if "accuracy" in metric else values
