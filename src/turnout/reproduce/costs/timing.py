"""How long the same runs take one by one."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from turnout.reproduce.costs.play import Case, Task, single_sessions

SAMPLE = 8
"""Sweeps that the estimate takes a look at."""


@dataclass(frozen=True)
class OneByOne:
    """Seconds for all runs one by one: measured in full, or on `sample` runs and scaled by count."""

    seconds: float
    sample: int
    runs: int

    def __str__(self) -> str:
        if self.sample == self.runs:
            return f"one by one they took {self.seconds:,.0f} s, all {self.runs:,} measured"
        return (
            f"one by one they would take about {self.seconds:,.0f} s: {self.sample} of them, drawn at random, were played one at "
            f"a time and their seconds scaled by count"
        )


def one_by_one(tasks: list[Task], case: Callable[[str], Case], whole: bool, seed: int = 0) -> OneByOne:
    """Time the runs of `tasks` one at a time: all of them, or two of each of SAMPLE sweeps drawn at random.

    The first run of a sweep pays for its program and is counted once, the second stands for all others.
    """
    runs = sum(task.runs for task in tasks)
    if whole:
        seconds = sum(timed(task, case(task.data)) for task in tasks)
        return OneByOne(seconds, runs, runs)
    parts = [replace(task, settings=settings) for task in tasks for _, settings in task.sweeps()]
    drawn = np.random.default_rng(seed).permutation(len(parts))[:SAMPLE]
    seconds = seen = played = 0
    for part in (parts[k] for k in drawn):
        two = replace(part, settings=part.settings[-1:], seeds=(part.seeds * 2)[:2])
        first, second = timed_each(two, case(part.data))
        seconds += first + (part.runs - 1) * second
        seen, played = seen + part.runs, played + 2
    return OneByOne(seconds * runs / seen, played, runs)


def timed(task: Task, case: Case) -> float:
    """Return the seconds that the runs of `task` take one by one."""
    return sum(timed_each(task, case))


def timed_each(task: Task, case: Case) -> list[float]:
    """Return the seconds of each run."""
    taken, began = [], time.perf_counter()
    for session in single_sessions(task, case):
        session.run()
        taken.append(time.perf_counter() - began)
        began = time.perf_counter()
    return taken
