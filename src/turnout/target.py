"""When a run is good enough."""

from typing import Literal

import numpy as np

from turnout.prices import Columns
from turnout.records import Positive, config


@config
class Target:
    """`metric` < `below`; for "accuracy" and "test_accuracy" it is the error rate, 1 - accuracy, that `below` bounds."""

    metric: Literal["value", "gap", "gradient", "distance", "accuracy", "test_value", "test_accuracy"]
    below: Positive

    def first_hit(self, columns: Columns) -> int | None:
        """Return the number of the first trace row that meets the target; None if there is none."""
        values = np.asarray(columns[self.metric])
        met = (1 - values if self.metric.endswith("accuracy") else values) < self.below
        return int(np.argmax(met)) if met.any() else None
