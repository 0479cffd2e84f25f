"""When a run is good enough."""

from typing import Any, Literal

import numpy as np

from turnout.prices import Columns
from turnout.records import Positive, record, static


@record
class Target:
    """`metric` < `below`; for "accuracy" and "test_accuracy" it is the error rate, 1 - accuracy, that `below` bounds.

    With `stop` the run ends at the first evaluation that meets it.
    """

    metric: Literal["value", "gap", "gradient", "distance", "accuracy", "test_value", "test_accuracy"] = static()
    below: Positive
    stop: bool = static(default=False)

    def met(self, values) -> Any:
        """Return whether each of the metric's `values` meets the target."""
        return (1 - values if self.metric.endswith("accuracy") else values) < self.below

    def first_hit(self, columns: Columns) -> int | None:
        """Return the number of the first trace row that meets the target; None if there is none."""
        met = self.met(np.asarray(columns[self.metric]))
        return int(np.argmax(met)) if met.any() else None
