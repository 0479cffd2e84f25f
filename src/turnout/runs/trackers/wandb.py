"""Runs in Weights & Biases."""

from typing import Literal

from turnout.core.extras import extra
from turnout.runs.callbacks import Callback
from turnout.runs.trackers.facts import end_of, parameters


class WeightsAndBiases(Callback):
    """Writes parameters, metrics and events of a run to Weights & Biases, drawn against the round.

    Args:
        project: Name of the project.
        mode: "offline" writes to `folder` alone, and `wandb sync` sends it later; "online" sends it at once.
        folder: Where files are written.

    Examples:
        >>> import turnout as t
        >>> t.trackers.WeightsAndBiases("cohorts").mode
        'offline'
    """

    def __init__(self, project: str = "turnout", mode: Literal["online", "offline"] = "offline", folder: str = "."):
        self.project, self.mode, self.folder = project, mode, folder

    def on_start(self, session):
        wandb = extra("wandb", "the tracker", "trackers")
        settings = wandb.Settings(silent=True, console="off")
        self._run = wandb.init(
            project=self.project,
            name=session.label,
            config=parameters(session),
            mode=self.mode,
            dir=str(self.folder),
            settings=settings,
        )
        # A step of its own would hold back the last row.
        self._run.define_metric("*", step_metric="round")

    def on_rows(self, session, rows):
        for row in rows.iter_rows(named=True):
            self._run.log(row)

    def on_end(self, session):
        end = end_of(session)
        self._run.summary["end"] = end
        self._run.finish(exit_code=0 if end == "finished" else 1)
