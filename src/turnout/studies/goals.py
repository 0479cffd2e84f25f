"""Goals: the first round at which a run is good enough, or the best that it comes to."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from turnout.accounting.target import is_own, smaller_better
from turnout.core.errors import UserError, unknown
from turnout.core.records import Positive, Proper, config
from turnout.engines.metrics import NAMES
from turnout.report.format import short


@config
class Goal:
    """A level of a metric: `below`, or a `share` of the metric's first value; without either, the best or the last value counts.

    Args:
        metric: The metric; of an accuracy, the error rate 1 - accuracy is compared.
        below: The goal is met where the metric is below this number.
        share: The goal is met where the metric is at most this share of its first value.
        where: Values of swept keys: the goal is about the settings that have them; default: about all.
        hold: "first": reached at the first row that meets it; "stays": at the first row from which on all rows meet it; "last":
            without a level, the last value of a run counts in the place of the best one.
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
    hold: Literal["first", "stays", "last"] = "first"
    where: dict[str, Any] | None = None
    problems: list[str] | None = None
    stop: bool = False

    def __post_init__(self):
        if self.metric not in NAMES and not is_own(self.metric):
            raise unknown("metric", self.metric, NAMES)
        if self.below is not None and self.share is not None:
            raise UserError("a goal has one level: give either below or share")
        if not self.levelled and (self.stop or self.hold == "stays"):
            raise UserError("a goal without a level is the best value of a whole run: leave out stop and hold")
        if self.levelled and self.hold == "last":
            raise UserError("hold = 'last' takes the last value of a run, whatever it is: leave out below and share")
        if self.stop and self.hold == "stays":
            raise UserError("whether a run stays below a level is known at its end only: leave out stop, or hold")

    @property
    def levelled(self) -> bool:
        """Whether there is a level to reach."""
        return self.below is not None or self.share is not None

    def about(self, problem: str, values: Mapping[str, Any] | None = None) -> bool:
        """Return whether the goal is about `problem`, and about a setting with these `values` of swept keys."""
        mine = self.problems is None or problem in self.problems
        return mine and (values is None or all(values.get(key) == value for key, value in (self.where or {}).items()))

    def met(self, values: np.ndarray) -> np.ndarray:
        """Return for each row of a run whether its metric's `values` [rows] meet the level, or are what counts; NaN does not.

        Raises:
            UserError: Of a first value that is not above 0, a share is no level.

        Args:
            values: The metric's values [rows].
        """
        values = smaller_better(self.metric, np.asarray(values, float))
        if not self.levelled:
            return np.arange(values.size) == values.size - 1 if self.hold == "last" else values == np.fmin.reduce(values)
        if self.share is None:
            return values < self.below
        if values[0] <= 0 and np.any(values < 0):
            raise UserError(
                f"a goal is {self.share:g} of the first {self.metric}, which is {values[0]:.3g}: a share is a level only of "
                "a number above 0, so take another metric, such as 'gap'"
            )
        return values <= self.share * values[0]

    def hit(self, values: np.ndarray, diverged: bool = False) -> int | None:
        """Return the row at which the goal is reached; None where it is not, nor at the end of a run that diverged."""
        met = self.met(values)
        reached = met if self.hold == "first" else np.logical_and.accumulate(met[::-1])[::-1]
        return int(np.argmax(reached)) if reached.any() and not (diverged and self.hold != "first") else None

    @property
    def words(self) -> str:
        """The goal in words, such as "distance < 0.02", "test error rate < 0.1" or "the best test_accuracy"."""
        where = ", ".join(f"{key.rpartition('.')[2]} = {value}" for key, value in (self.where or {}).items())
        where = where and f" at {where}"
        if not self.levelled:
            return f"the {'last' if self.hold == 'last' else 'best'} {self.metric}{where}"
        level = f"< {self.below:g}" if self.share is None else f"≤ {self.share:g} of the start"
        return f"{short(self.metric)} {level}{'' if self.hold == 'first' else ' and stays there'}{where}"


def last_row(goals: Iterable[Goal], columns: Mapping[str, np.ndarray]) -> int | None:
    """Return the row of a run at which all `goals` are reached; None where one is not, or there are none.

    Args:
        goals: The goals.
        columns: Metrics of the rows, by name.
    """
    hits = [goal.hit(columns[goal.metric]) for goal in goals]
    return None if not hits or None in hits else max(hits)
