"""Playing one setting of a contender with one seed: what every row of its trace says."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from turnout.experiment.build import Built, session_of
from turnout.experiment.config import Experiment
from turnout.reproduce.networks.paper import Contender, Setting, told
from turnout.reproduce.store import Frames


@dataclass(frozen=True)
class Task:
    """One run of a contender on a problem with the `values` of its grid."""

    setting: Setting
    name: str
    contender: Contender
    values: dict[str, float]
    seed: int

    @property
    def label(self) -> str:
        return f"{self.setting.name}: {self.contender.title}"

    @property
    def stem(self) -> str:
        """What the files are called that are kept of it."""
        return "-".join([self.setting.name, self.name, *re.findall(r"[\w.]+", told(self.values)), str(self.seed)])

    @property
    def key(self) -> tuple[str, str, str]:
        """Its problem, contender and setting, as the rows name them."""
        return self.setting.name, self.name, told(self.values)

    @property
    def experiment(self) -> Experiment:
        """Its configuration."""
        found = self.setting.experiment(self.name, self.contender, self.values)
        return replace(found, run=replace(found.run, seed=self.seed))


def play(task: Task, built: Built, check: Callable[[], None]) -> Frames:
    """Play `task` and return "rows": one for each row of its trace, with the metrics and the events up to there."""
    session = session_of(task.experiment, built)
    for _ in session.play():
        check()
    mark = dict(zip(("problem", "contender", "setting"), task.key, strict=True)) | {"seed": task.seed}
    along = float(task.values[task.contender.along]) if task.contender.along else None
    marks = [*(pl.lit(value).alias(name) for name, value in mark.items()), pl.lit(along, pl.Float64).alias("along")]
    return {"rows": session.trace.frame.select(*marks, "*")}
