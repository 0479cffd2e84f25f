"""Callbacks of a run: what is done with its rows as they come, early stopping, and the best parameters."""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import PyTree

from turnout.accounting.target import smaller_better
from turnout.core.errors import UserError, unknown
from turnout.io.atomic import write
from turnout.io.models import encode_model

if TYPE_CHECKING:
    import polars as pl

    from turnout.runs.session import Session


class Callback:
    """Is told of a run's start, of its new rows and of its end; a subclass writes what it needs of the three.

    Examples:
        >>> import turnout as t
        >>> class Printer(t.Callback):
        ...     def on_rows(self, session, rows):
        ...         print(rows["round"].to_list())
        >>> trace = t.run(t.Gd(t.Full(), lr=0.1), t.Quadratic.random(3, 2), rounds=1, callbacks=[Printer()])
        [0]
        [1]
    """

    each_row: ClassVar[bool] = False
    """Whether rows have to come one by one, with the parameters of that round in `session.trace.x`."""

    def on_start(self, session: "Session") -> None:
        """Do what is to be done before the first round, or before a resumed run goes on."""

    def on_rows(self, session: "Session", rows: "pl.DataFrame") -> bool | None:
        """Take new rows of `session.trace.frame`; True ends the run, whose trace keeps them."""

    def on_end(self, session: "Session") -> None:
        """Do what is to be done after the last row, also where the run is interrupted."""


class BestParameters(Callback):
    """Keeps the parameters of the row with the best value of a metric.

    Args:
        metric: Name of a metric of the run, also of your own; the largest accuracy is the best, and the smallest of all others.
        path: File that they are written to at the end, as by `Trace.save_model`; None writes none.

    Attributes:
        x: The best parameters so far, the earliest of equals.
        value: The metric there.
        round: The round.

    Examples:
        >>> import turnout as t
        >>> best = t.BestParameters("value")
        >>> trace = t.run(t.Gd(t.Full(), lr=0.1), t.Quadratic.random(3, 2), rounds=5, metrics=("value",), callbacks=[best])
        >>> best.round, bool(best.value == trace.frame["value"].min())
        (5, True)
    """

    each_row = True

    def __init__(self, metric: str, path: Path | str | None = None):
        self.metric, self.path = metric, None if path is None else Path(path)
        self._forget()

    def _forget(self):
        self.x: PyTree = None
        self.value, self.round = np.nan, -1
        self._state: PyTree = None

    def on_start(self, session):
        check_metric(self.metric, session)
        # A run that goes on keeps the best of its earlier rows.
        if not len(session.trace):
            self._forget()

    def on_rows(self, session, rows):
        for value, round in rows.select(self.metric, "round").iter_rows():
            if self.x is None or self._level(value) < self._level(self.value):
                self.x, self.value, self.round = session.trace.x, value, round
                # Statistics of PyTorch modules are those of now.
                self._state = None if self.path is None else session.trace.state(self.x)

    def _level(self, value: float) -> float:
        """Return a value such that smaller is better; infinity for no number, as a metric may be at the start."""
        return np.inf if np.isnan(value) else smaller_better(self.metric, value)

    def on_end(self, session):
        if self.path is not None and self.x is not None:
            facts = {**session.trace.facts(self.round), self.metric: self.value}
            write(self.path, encode_model(self.x, facts, self._state))


class EarlyStopping(Callback):
    """Ends a run where a metric has not improved for `patience` rows of the trace.

    Args:
        metric: Name of a metric of the run, such as "held_out_value"; accuracies shall rise, all others fall.
        patience: Number of rows without an improvement that ends the run.
        min_delta: An improvement is larger than this.

    Raises:
        UserError: If `patience` is not a whole number from 1, `min_delta` is negative, or the run has no such metric.

    Examples:
        >>> import turnout as t
        >>> problem, stopping = t.Quadratic.random(3, 2), t.EarlyStopping("value", patience=5)
        >>> len(t.run(t.Gd(t.Full(), lr=0.1), problem, rounds=10_000, metrics=("value",), callbacks=[stopping])) < 2_000
        True
    """

    each_row = True

    def __init__(self, metric: str, patience: int, min_delta: float = 0.0):
        if type(patience) is not int or patience < 1:
            raise UserError(f"patience is a number of rows from 1, not {patience!r}")
        if not min_delta >= 0:
            raise UserError(f"min_delta is a number of at least 0, not {min_delta!r}")
        self.metric, self.patience, self.min_delta = metric, patience, min_delta
        self.level, self.waited = np.inf, 0

    def on_start(self, session):
        check_metric(self.metric, session)
        # A resumed run continues the count.
        self.level, self.waited = np.inf, 0
        if len(session.trace):
            self.on_rows(session, session.trace.frame)

    def on_rows(self, session, rows):
        for level in smaller_better(self.metric, rows[self.metric]):
            if level < self.level - self.min_delta:
                self.level, self.waited = level, 0
            else:
                self.waited += 1
        return self.waited >= self.patience


class EachClient(Callback):
    """Keeps rows, loss and accuracy of each client, as `Trace.clients` has them, of every `every`-th round and of the last row.

    Args:
        every: Rounds between two of these frames; rounds that the trace has no row of are left out.

    Attributes:
        frame: "round" and the columns of `Trace.clients`.

    Raises:
        UserError: If `every` is not a whole number from 1.

    Examples:
        >>> import turnout as t
        >>> clients = t.EachClient(every=10)
        >>> trace = t.run(t.Gd(t.Full(), lr=0.1), t.Quadratic.random(3, 2), rounds=15, callbacks=[clients])
        >>> clients.frame["round"].unique().sort().to_list()
        [0, 10, 15]
    """

    each_row = True

    def __init__(self, every: int = 1):
        if type(every) is not int or every < 1:
            raise UserError(f"every is a number of rounds from 1, not {every!r}")
        self.every, self._frames = every, {}

    @property
    def frame(self) -> "pl.DataFrame":
        """A row for each client in each of these rounds."""
        # Slow to import.
        import polars as pl

        return pl.concat(frame.select(pl.lit(round).alias("round"), pl.all()) for round, frame in self._frames.items())

    def on_start(self, session):
        # A run that goes on keeps those of its earlier rows.
        if not len(session.trace):
            self._frames = {}

    def on_rows(self, session, rows):
        if rows["round"][-1] % self.every == 0:
            self._frames[rows["round"][-1]] = session.trace.clients

    def on_end(self, session):
        if len(session.trace):
            self._frames.setdefault(int(session.trace.columns["round"][-1]), session.trace.clients)


def check_metric(metric: str, session: "Session") -> None:
    """Raise `UserError` where a session does not evaluate a metric."""
    evaluated = [*session.metrics, *(own.name for own in session.own)]
    if metric not in evaluated:
        raise unknown("metric of the run", metric, evaluated)
