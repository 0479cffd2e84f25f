"""Trials: runs that are played as far as they are asked for, go on from there, and are kept in a table."""

import math
import time
from pathlib import Path

import numpy as np
import polars as pl

from turnout.accounting.prices import Price
from turnout.core.errors import UserError
from turnout.io.atomic import make_folder, write
from turnout.io.parquet import parquet
from turnout.planner.race import Outcome
from turnout.runs.session import Session
from turnout.studies.play import sentence

FILE = "trials.parquet"

SECONDS = 20.0
"""Time between two times at which trials are written."""

ROWS = 64
"""The most rows that are played before the cost is looked at again."""


class Trial:
    """A run that is played bit by bit.

    Args:
        key: The digest of what determines it.
        sessions: Returns its session, which stands at the start.
        rows: The rows of it that are known already, with the columns "over" and "met".
    """

    def __init__(self, key: str, sessions, rows: pl.DataFrame | None = None):
        self.key, self._sessions, self._known = key, sessions, rows
        self._session: Session | None = None
        self._end: tuple[int, pl.DataFrame] | None = None
        self.broken = ""

    @property
    def frame(self) -> pl.DataFrame:
        """The rows that have been played."""
        if self._session is not None and len(self._session.trace):
            return self._session.trace.frame
        return pl.DataFrame() if self._known is None else self._known.drop("over", "met")

    @property
    def over(self) -> bool:
        """Whether nothing more is to be played."""
        if self._session is None:
            return bool(self.broken) or (self._known is not None and self._known["over"][-1])
        return bool(self.broken) or self._session.over

    @property
    def met(self) -> bool:
        """Whether the run has reached its target, at its last row."""
        if self._session is None:
            return self._known is not None and self._known["met"][-1]
        return self._session.trace.met is not None

    @property
    def rounds(self) -> int:
        """The rounds that have been played."""
        rows = self._last()
        return 0 if rows is None else int(rows["round"][-1])

    def spent(self, price: Price) -> float:
        """Return the cost of what has been played."""
        rows = self._last()
        return 0.0 if rows is None else float(np.asarray(price.cost(rows), float)[-1])

    def play(self, price: Price, cap: float) -> Outcome:
        """Play until the target is reached, the run ends or its cost is at least `cap`."""
        while not self.over and (spent := self.spent(price)) < cap:
            self._step(cap, spent)
        spent = self.spent(price)
        return Outcome(spent if self.met else math.inf, spent, self.over)

    def rows(self) -> pl.DataFrame:
        """Return the rows as they are kept."""
        last = pl.int_range(pl.len()) == pl.len() - 1
        ends = (pl.lit(value).and_(last).alias(name) for name, value in (("over", self.over), ("met", self.met)))
        return self.frame.select(pl.lit(self.key).alias("run"), "*", *ends)

    def _last(self) -> pl.DataFrame | None:
        if self._session is None or not (rows := len(self._session.trace)):
            return None if self._known is None else self._known[-1:]
        # It is asked for more often than there are new rows.
        if self._end is None or self._end[0] != rows:
            self._end = rows, self._session.trace.frame_from(rows - 1)
        return self._end[1]

    def _step(self, cap: float, spent: float) -> None:
        """Play some rows: about as many as reach `cap`."""
        try:
            if self._session is None:
                self._session = self._sessions()
                if self._known is not None:
                    self._session.step(1)
                    self._session.step(len(self._known) - 1)
                    self._known = None
                    return
            played = len(self._session.trace) - 1
            # What the start costs does not tell what a round costs.
            known = spent > 0 and played > 0 and math.isfinite(cap)
            needed = (cap - spent) / (spent / played) if known else max(1, played)
            self._session.step(int(np.clip(math.ceil(needed), 1, ROWS)))
        # A candidate that breaks, for whatever reason, must not take the others with it.
        except Exception as error:
            self.broken = sentence(error)


class TrialStore:
    """Keeps trials in a table of a folder, written now and then.

    Args:
        folder: The folder; None: they are not kept.
    """

    def __init__(self, folder: Path | None):
        self.trials: dict[str, Trial] = {}
        self._file = None if folder is None else make_folder(folder) / FILE
        self._known: dict[str, pl.DataFrame] = {}
        self._written = time.monotonic()
        if self._file is not None and self._file.exists():
            try:
                parts = pl.read_parquet(self._file).partition_by("run", as_dict=True, maintain_order=True)
            except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
                raise UserError(f"{self._file} cannot be read ({error}): remove it, or choose another --out") from None
            self._known = {key: rows.drop("run") for (key,), rows in parts.items()}

    def trial(self, key: str, sessions) -> Trial:
        """Return the trial with this key, as far as it was played."""
        if key not in self.trials:
            self.trials[key] = Trial(key, sessions, self._known.get(key))
        return self.trials[key]

    def write(self, now: bool = False) -> None:
        """Write all trials if it is time to, or at once."""
        if self._file is None or not (now or time.monotonic() - self._written > SECONDS):
            return
        frames = [rows for trial in self.trials.values() if not (rows := trial.rows()).is_empty()]
        # What this process has not asked for yet stays.
        unasked = {key: rows for key, rows in self._known.items() if key not in self.trials}
        frames += [rows.select(pl.lit(key).alias("run"), "*") for key, rows in unasked.items()]
        if frames:
            write(self._file, parquet(pl.concat(frames, how="diagonal_relaxed")))
        self._written = time.monotonic()
