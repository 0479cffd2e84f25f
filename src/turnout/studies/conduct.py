"""Conducting a study: plan it, play what is not there yet, choose settings, and put all runs into one table."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from turnout.accounting.ledger import EVENTS, NEW
from turnout.accounting.target import is_own
from turnout.core.timing import timing
from turnout.engines.metrics import NAMES
from turnout.io.atomic import write
from turnout.io.parquet import parquet
from turnout.studies.budget import Budget, one_by_one
from turnout.studies.cases import Cases
from turnout.studies.costs import best_settings, costs, run_costs
from turnout.studies.declaration import Declaration
from turnout.studies.plan import Program, Run, plan_of
from turnout.studies.play import Played
from turnout.studies.store import ALL, Store
from turnout.studies.workers import play_all

if TYPE_CHECKING:
    from turnout.studies.jobs import Jobs


@dataclass
class Progress:
    """How far a study is: runs and rounds that are done, and all of them; runs from before count as done."""

    runs: int = 0
    all_runs: int = 0
    rounds: int = 0
    all_rounds: int = 0


Watch = Callable[[Progress], None]
"""Called as a study goes on; may raise to interrupt it."""


def conduct(
    declaration: Declaration,
    folder: Path,
    cases: Cases,
    workers: int,
    watch: Watch,
    jobs: "Jobs | None" = None,
    budget: Budget | None = None,
) -> tuple[pl.DataFrame, dict]:
    """Play a study in `folder`, as far as it is not there yet and the `budget` goes, as `jobs` if these are given.

    Returns:
        The rows of all runs, and the sentence about each run that broke.
    """
    store, progress = Store(folder), Progress()
    player = Player(store, cases, workers, watch, progress, jobs, budget)
    # All mistakes are told before the first run.
    tuned = plan_of(declaration, cases, "tune") if declaration.tuned_on else []
    reported = plan_of(declaration, cases, "report")
    if tuned:
        player.play(tuned)
        rows = assembled(tuned, store)
        if budget is not None and budget.not_played:
            # Settings would be chosen on some of the seeds.
            reported = []
        else:
            reported = plan_of(declaration, cases, "report", _chosen(declaration, rows))
    player.play(reported)
    rows = assembled([*tuned, *reported], store)
    write(folder / ALL, parquet(rows))
    return rows, player.broken


@dataclass
class Player:
    """Plays programs and keeps what they leave.

    Args:
        store: Where runs are kept.
        cases: The problems.
        workers: Number of processes.
        watch: Told the progress.
        progress: The progress so far.
        jobs: How programs become jobs, of which `workers` run at a time; None for processes of this one.
        budget: What the runs may spend; None without a limit.
        broken: The runs that broke by their keys, with a sentence each.
    """

    store: Store
    cases: Cases
    workers: int
    watch: Watch
    progress: Progress
    jobs: "Jobs | None" = None
    budget: Budget | None = None
    broken: dict[str, tuple[Run, str]] = field(default_factory=dict)

    def play(self, programs: list[Program]) -> None:
        """Play the runs of `programs` that are not kept yet."""
        missing = [rest for program in programs if (rest := self._missing(program)).runs]
        self.progress.all_runs += sum(len(program.runs) for program in programs)
        self.progress.all_rounds += sum(program.rounds for program in programs)
        self.progress.runs = self.progress.all_runs - sum(len(program.runs) for program in missing)
        self.progress.rounds = self.progress.all_rounds - sum(program.rounds for program in missing)
        self.watch(self.progress)
        if self.jobs is not None:
            self.jobs.play(missing, (self.cases.data, self.store.runs), self.workers, self._report, self._keep)
            return
        if self.budget is not None:
            self.budget.count(kept([run for program in programs for run in program.runs], self.store))
            missing = one_by_one(missing)
        play_all(missing, self.cases, self.store.runs, self.workers, self._report, self._keep, self._enough)
        if self.budget is not None:
            runs = (run for program in missing for run in program.runs)
            self.budget.not_played += tuple(run for run in runs if run.key not in self.store and run.key not in self.broken)

    def _missing(self, program: Program) -> Program:
        """Return `program` without the runs that are kept."""
        return replace(program, runs=tuple(run for run in program.runs if run.key not in self.store))

    def _enough(self) -> bool:
        return self.budget is not None and self.budget.over

    def _report(self, rounds: int) -> None:
        self.progress.rounds += rounds
        self.watch(self.progress)

    def _keep(self, program: Program, played: Played) -> None:
        if not played.rows.is_empty():
            self.store.add(played.rows)
            if self.budget is not None:
                self.budget.count(played.rows)
        self.store.forget(program.key)
        if (watch := timing()) is not None:
            watch.add(played.seconds)
        self.broken |= {run.key: (run, played.broken[run.key]) for run in program.runs if run.key in played.broken}
        self.progress.runs += len(program.runs)
        self.watch(self.progress)


def assembled(programs: list[Program], store: Store) -> pl.DataFrame:
    """Return the rows of all runs that are kept, in the order of the study."""
    runs = sorted((run for program in programs for run in program.runs), key=lambda run: run.place)
    stored = kept(runs, store)
    if stored.is_empty():
        return stored
    keys = list(dict.fromkeys(key for run in runs for key in run.values))
    rows = _labels(runs, keys).join(stored, on="run", maintain_order="left_right")
    first = ["problem", "method", "setting", *keys, "seed", "purpose", "round"]
    own = (name for name in rows.columns if is_own(name))
    return rows.select(*first, *(name for name in NAMES if name in rows.columns), *own, *EVENTS, "diverged")


def kept(runs: list[Run], store: Store) -> pl.DataFrame:
    """Return the rows of those runs that are kept, named by the column "run", with all events."""
    rows = store.read([run.key for run in runs])
    # Runs that were kept by an earlier version lack these.
    for name, flat in NEW.items() if not rows.is_empty() else ():
        usual = pl.lit(0) if flat is None else pl.col(flat)
        rows = rows.with_columns((pl.col(name).fill_null(usual) if name in rows.columns else usual).alias(name))
    return rows


def _labels(runs: list[Run], keys: list[str]) -> pl.DataFrame:
    """Return one row for each run: what tells which run it is; keys with texts among their values are text."""
    texts = {key for key in keys if any(not isinstance(run.values.get(key, 0), int | float) for run in runs)}
    columns = {name: [getattr(run, name) for run in runs] for name in ("problem", "method", "setting", "seed", "purpose")}
    for key in keys:
        values = [run.values.get(key) for run in runs]
        columns[key] = [value if value is None or key not in texts else str(value) for value in values]
    types = {"seed": pl.Int64, **{key: pl.String if key in texts else pl.Float64 for key in keys}}
    return pl.DataFrame({**columns, "run": [run.key for run in runs]}, schema_overrides=types)


def _chosen(declaration: Declaration, rows: pl.DataFrame) -> dict[tuple[str, str], set[str]]:
    """Return the settings of each problem and method that cost least on the seeds of tuning, for some goal and price."""
    chosen: dict[tuple[str, str], set[str]] = {}
    for goal, price in declaration.tuning:
        for row in best_settings(costs(run_costs(rows, declaration.goals[goal], declaration.prices[price]))).iter_rows(
            named=True
        ):
            chosen.setdefault((row["problem"], row["method"]), set()).add(row["setting"])
    return chosen
