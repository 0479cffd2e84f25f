"""Goals: the first round at which a run is good enough."""

from typing import Literal

import numpy as np
import polars as pl

from turnout.accounting.target import smaller_better
from turnout.core.errors import UserError, unknown
from turnout.core.records import Positive, Proper, config
from turnout.engines.metrics import NAMES


@config
class Goal:
    """A level of a metric: `below`, or a `share` of the metric's first value.

    Args:
        metric: The metric; of an accuracy, the error rate 1 - accuracy is compared.
        below: The goal is met where the metric is below this number.
        share: The goal is met where the metric is at most this share of its first value.
        hold: "first": reached at the first row that meets it; "stays": at the first row from which on all rows meet it.
        problems: The problems that it is about; default: all.
        stop: Whether a run ends where it has reached every goal that stops.

    Examples:
        >>> import numpy as np
        >>> import turnout as t
        >>> values = np.array([8.0, 0.5, 2.0, 0.4])
        >>> t.Goal("gradient", below=1.0).hit(values), t.Goal("gradient", share=0.1, hold="stays").hit(values)
        (1, 3)
    """

    metric: str
    below: Positive | None = None
    share: Proper | None = None
    hold: Literal["first", "stays"] = "first"
    problems: list[str] | None = None
    stop: bool = False

    def __post_init__(self):
        if self.metric not in NAMES:
            raise unknown("metric", self.metric, NAMES)
        if (self.below is None) == (self.share is None):
            raise UserError("a goal has one level: give either below or share")
        if self.stop and self.hold == "stays":
            raise UserError("whether a run stays below a level is known at its end only: leave out stop, or hold")

    def about(self, problem: str) -> bool:
        """Return whether the goal is about `problem`."""
        return self.problems is None or problem in self.problems

    def met(self, values: np.ndarray) -> np.ndarray:
        """Return for each row of a run whether its metric's `values` [rows] meet the level; NaN does not."""
        values = smaller_better(self.metric, np.asarray(values, float))
        return values < self.below if self.share is None else values <= self.share * values[0]

    def hit(self, values: np.ndarray, diverged: bool = False) -> int | None:
        """Return the row at which the goal is reached; None where it is not, nor where it should stay and the run diverged."""
        met = self.met(values)
        reached = met if self.hold == "first" else np.logical_and.accumulate(met[::-1])[::-1]
        return int(np.argmax(reached)) if reached.any() and not (diverged and self.hold == "stays") else None

    @property
    def words(self) -> str:
        """The goal in words, such as "distance < 0.02"."""
        level = f"< {self.below:g}" if self.share is None else f"≤ {self.share:g} of the start"
        return f"{self.metric} {level}{'' if self.hold == 'first' else ' and stays there'}"


def last_row(goals: list[Goal], frame: pl.DataFrame) -> int | None:
    """Return the row of a run at which all `goals` are reached; None where one is not, or there are none."""
    hits = [goal.hit(frame[goal.metric].to_numpy()) for goal in goals]
    return None if not hits or None in hits else max(hits)
