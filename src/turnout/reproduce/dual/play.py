"""Playing one contender: runs in, frames of all rounds out."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from turnout.experiment.build import Built, session_of
from turnout.experiment.config import Experiment
from turnout.reproduce.store import Frames


@dataclass(frozen=True)
class Task:
    """One contender on one set with cohorts of `tau` and all `seeds`; a run ends once its gap is at most `until`."""

    set: str
    contender: str
    tau: int
    seeds: list[int]
    until: float
    experiment: Experiment

    @property
    def stem(self) -> str:
        """What the files are called that are kept of it, and the task itself."""
        return f"{self.set}-{self.contender}-{self.tau}"


def play(task: Task, built: Built, least: float, check: Callable[[], None]) -> Frames:
    """Play `task` and return "rounds": what each seed has after each round, the sums of exchanges and bytes among it.

    The gap is f - `least`. The seeds share one compiled program, and each is played until it has arrived.
    """
    frames = []
    for seed in task.seeds:
        run = replace(task.experiment.run, seed=seed)
        session = session_of(replace(task.experiment, run=run), built)
        for _ in session.play():
            check()
            if session.trace.columns["value"].min() - least <= task.until:
                break
        frames.append(gaps(session.trace.frame, least).select(pl.lit(seed).alias("seed"), "*"))
    mark = [pl.lit(value).alias(name) for name, value in (("set", task.set), ("contender", task.contender), ("tau", task.tau))]
    return {"rounds": pl.concat(frames).select(*mark, "*")}


def gaps(frame: pl.DataFrame, least: float) -> pl.DataFrame:
    """Return the rows of a trace as gap, test accuracy (null where nothing is tested), exchanges and bytes both ways."""
    tested = pl.col("test_accuracy") if "test_accuracy" in frame.columns else pl.lit(None, pl.Float64).alias("test_accuracy")
    sent = (pl.col("bytes_down") + pl.col("bytes_up")).alias("bytes")
    return frame.select("round", (pl.col("value") - least).alias("gap"), tested, "exchanges", sent)
