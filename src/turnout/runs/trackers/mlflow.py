"""Runs in MLflow."""

import time

from turnout.core.extras import extra
from turnout.runs.callbacks import Callback
from turnout.runs.trackers.facts import end_of, parameters

ENDS = {"finished": "FINISHED", "interrupted": "KILLED", "diverged": "FAILED"}
"""What MLflow calls the ends of runs."""

BATCH = 1000
"""The most metrics that MLflow takes in one request."""


class MlFlow(Callback):
    """Writes parameters, metrics and events of a run to MLflow; the step is the round.

    Args:
        experiment: Name of the experiment, which is made if it is not there.
        uri: Address of the server or of a database, such as "sqlite:///mlflow.db"; None means what MLflow is configured for.

    Examples:
        >>> import turnout as t
        >>> t.trackers.MlFlow(experiment="cohorts").experiment
        'cohorts'
    """

    def __init__(self, experiment: str = "turnout", uri: str | None = None):
        self.experiment, self.uri = experiment, uri

    def on_start(self, session):
        mlflow = extra("mlflow", "the tracker", "trackers")
        self._client = mlflow.MlflowClient(self.uri)
        known = self._client.get_experiment_by_name(self.experiment)
        number = self._client.create_experiment(self.experiment) if known is None else known.experiment_id
        self._run = self._client.create_run(number, run_name=session.label).info.run_id
        self._client.log_batch(
            self._run, params=[mlflow.entities.Param(name, str(value)) for name, value in parameters(session).items()]
        )

    def on_rows(self, session, rows):
        metric, now = extra("mlflow", "the tracker", "trackers").entities.Metric, int(time.time() * 1000)
        values = [
            metric(name, float(value), now, row["round"])
            for row in rows.iter_rows(named=True)
            for name, value in row.items()
            if name != "round"
        ]
        for k in range(0, len(values), BATCH):
            self._client.log_batch(self._run, metrics=values[k : k + BATCH])

    def on_end(self, session):
        if session.trace.diverged is not None:
            self._client.set_tag(self._run, "diverged", str(session.trace.diverged))
        self._client.set_terminated(self._run, ENDS[end_of(session)])
