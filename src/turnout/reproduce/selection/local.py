"""The constants of a problem along the steps of one run."""

import jax
import numpy as np
import polars as pl

from turnout.core.seeds import Seeds
from turnout.engines.sweep import set_leaves
from turnout.experiment.build import Built
from turnout.reproduce.selection.play import Task, scaled, told
from turnout.runs.session import Session
from turnout.runs.setup import scope
from turnout.theory.dissimilarity import along


def steps(task: Task, built: Built, setting: str) -> pl.DataFrame:
    """Return delta and L_1 of each step of the first run with `setting`, until it arrives."""
    cell = next(cell for cell in task.cells() if told(cell) == setting)
    algorithm = set_leaves(task.experiment.algorithm, scaled(task, built.problem, cell.settings))
    rounds, metrics = task.experiment.run.rounds, tuple(task.experiment.run.metrics)
    session = Session(algorithm, built.problem, seeds=Seeds.of(cell.seed), rounds=rounds, metrics=metrics)
    points, gradients = [], []
    with scope(session.precision):
        for limit in range(rounds + 1):
            session.progress, row = session.engine.advance(session.progress, limit, 1)
            points.append(jax.tree.map(np.array, session.progress.good))
            gradients.append(float(row["gradient"][0]))
            if gradients[-1] <= min(task.below) * gradients[0]:
                break
    found = along(built.problem, points)
    return pl.DataFrame(
        {
            "iteration": range(1, len(points)),
            "delta": [step.delta for step in found],
            "smooth_one": [step.smooth_one for step in found],
        }
    )
