"""One line of the benchmark table, and how its times are taken."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Timed = Callable[[], float]
"""A function that does something and returns the seconds it took."""

REPEATS = 5
SEED = 0
"""The seed of all made-up data, and of every run that does not say otherwise."""


@dataclass(frozen=True)
class Line:
    """One measured number in `unit`, how it was set up, and every single timing behind it, in seconds.

    The bar is the most that the number may be, or with `at_least` the least; a line without one is reported only. A
    line that could not be measured has the number None and says why in its note.
    """

    topic: str
    what: str
    measured: float | None
    bar: float | None = None
    at_least: bool = False
    unit: str = "x"
    note: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, list[float]] = field(default_factory=dict)

    @property
    def passed(self) -> bool | None:
        """Whether the bar is met, which takes a number; None where there is no bar."""
        if self.bar is None:
            return None
        if self.measured is None:
            return False
        return self.measured >= self.bar if self.at_least else self.measured <= self.bar


def seconds(function: Callable[[], Any]) -> float:
    """Return how long one call takes, in seconds."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def alternate(timed: Mapping[str, Timed], repeats: int = REPEATS, warm: bool = True) -> dict[str, list[float]]:
    """Call functions that return seconds in turn, A B A B, `repeats` times each, with `warm` once before."""
    for one in timed.values() if warm else ():
        one()
    taken: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(repeats):
        for name, one in timed.items():
            taken[name].append(one())
    return taken


def ratio(taken: Mapping[str, list[float]], above: str, below: str) -> float:
    """Return the median over the repeats of the time of `above` over that of `below`, taken one after the other."""
    return median(a / b for a, b in zip(taken[above], taken[below], strict=True))
