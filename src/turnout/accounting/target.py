"""The target of a run."""

from typing import Any, ClassVar

import numpy as np

from turnout.accounting.prices import Columns
from turnout.core.errors import UserError
from turnout.core.records import Positive, record, static


class OwnName(str):
    """The name of a metric of the user's own."""


@record
class Target:
    """A run meets its target where `metric` < `below`; of an accuracy, the error rate 1 - accuracy is compared.

    Args:
        metric: The metric to compare: the name of one of turnout's, a `Metric` of one's own, or "module:function".
        below: The bound, > 0.
        stop: Whether the run ends at the first evaluation that meets the target.

    Examples:
        >>> import turnout as t
        >>> t.Target("distance", below=0.05).first_hit({"distance": [1.0, 0.1, 0.01]})
        2
        >>> t.Target("accuracy", below=0.1).met(0.95)
        True
    """

    example = "t.Target('value', 0.1)"

    metric: Any = static()
    below: Positive
    stop: bool = static(default=False)

    known: ClassVar[tuple[str, ...]] = (
        "value", "gap", "gradient", "distance", "accuracy", "accuracy_10", "accuracy_50", "accuracy_90",
        "accuracy_worst_decile", "accuracy_spread", "test_value", "test_accuracy", "held_out_value", "held_out_accuracy",
        "perplexity", "test_perplexity", "held_out_perplexity",
        "held_out_accuracy_10", "held_out_accuracy_50", "held_out_accuracy_90",
        "held_out_accuracy_worst_decile", "held_out_accuracy_spread",
    )  # fmt: skip
    """The metrics of turnout that a target may be on, beside one's own."""

    def __post_init__(self):
        metric = self.metric
        if not isinstance(metric, str) and isinstance(getattr(metric, "name", None), str):
            object.__setattr__(self, "metric", OwnName(metric.name))
        elif not isinstance(metric, OwnName) and metric not in self.known and not (isinstance(metric, str) and is_own(metric)):
            names = ", ".join(map(repr, self.known))
            raise UserError(
                f"Target.metric must be {names}, a Metric or 'module:function', but it is {metric!r}: name one of these"
            )

    def met(self, values) -> Any:
        """Return whether each of the metric's `values` meets the target, as an array of their shape."""
        return smaller_better(self.metric, values) < self.below

    def first_hit(self, columns: Columns) -> int | None:
        """Return the number of the first of the trace rows `columns` that meets the target; None if there is none."""
        met = self.met(np.asarray(columns[self.metric]))
        return int(np.argmax(met)) if met.any() else None


def is_own(metric: str) -> bool:
    """Return whether a metric is one of the user's own that is named "module:function" or "file.py:function".

    Args:
        metric: Name of the metric.
    """
    return ":" in metric


def smaller_better(metric: str, values) -> Any:
    """Return `values` of `metric` such that smaller is better: error rates 1 - values for accuracies.

    Args:
        metric: Name of the metric.
        values: Its values, a number or an array.
    """
    return 1 - values if is_accuracy(metric) else values


def is_accuracy(metric: str) -> bool:
    """Return whether a metric is a share of rows that are classified correctly, of which larger is better.

    The spread of such shares over the clients, and the standard error of their mean, are none.

    Args:
        metric: Name of the metric.
    """
    return "accuracy" in metric and not metric.endswith(("spread", "error"))
