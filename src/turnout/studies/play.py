"""Playing a program: its runs in, their rows out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import polars as pl

from turnout.core.errors import UserError
from turnout.engines.sweep import set_leaves
from turnout.experiment.build import session_of
from turnout.runs.session import Session
from turnout.runs.sweep import Cell
from turnout.runs.trace import Trace
from turnout.studies.cases import Case
from turnout.studies.goals import last_row
from turnout.studies.plan import Program, Run

Report = Callable[[int], None]
"""Told the number of rounds that were played since it was last told; may raise to interrupt."""


@dataclass(frozen=True)
class Played:
    """What a program left: rows of its runs, and the sentence about each run that broke, by its key."""

    rows: pl.DataFrame
    broken: dict[str, str]


def play(program: Program, case: Case, report: Report) -> Played:
    """Play a program; where it breaks, each run alone, so that a broken one does not take others with it."""
    try:
        traces = together(program, case, report) if goes_together(program) else one_by_one(program, case, report)
        frames = [rows_of(program, run, trace) for run, trace in zip(program.runs, traces, strict=True)]
        return Played(pl.concat(frames, how="vertical_relaxed"), {})
    except Exception as error:
        if len(program.runs) == 1:
            return Played(pl.DataFrame(), {program.runs[0].key: sentence(error)})
    parts = [play(replace(program, runs=(run,)), case, report) for run in program.runs]
    frames = [part.rows for part in parts if not part.rows.is_empty()]
    rows = pl.concat(frames, how="vertical_relaxed") if frames else pl.DataFrame()
    return Played(rows, {key: why for part in parts for key, why in part.broken.items()})


def goes_together(program: Program) -> bool:
    """Return whether the runs can be the cells of one sweep, which has one seed a cell and the compiled engine."""
    run = program.experiment.run
    purposes = (run.sampling_seed, run.local_seed, run.model_seed, run.faults_seed)
    return run.engine == "compiled" and program.experiment.privacy is None and all(seed is None for seed in purposes)


def together(program: Program, case: Case, report: Report) -> list[Trace]:
    """Play all runs as the cells of one sweep, until each has reached its goals."""
    session = session_for(program.experiment, case, [Cell(run.leaves, run.seed) for run in program.runs])
    for done in chunks(session):
        report(done * len(program.runs))
        if program.stops and all(last_row(list(program.stops), trace.frame) is not None for trace in session.traces):
            break
    return session.traces


def one_by_one(program: Program, case: Case, report: Report) -> list[Trace]:
    """Play each run in a session of its own."""
    traces = []
    for run in program.runs:
        algorithm = set_leaves(program.experiment.algorithm, run.leaves)
        options = replace(program.experiment.run, seed=run.seed)
        session = session_for(replace(program.experiment, algorithm=algorithm, run=options), case, None)
        for done in chunks(session):
            report(done)
        traces.append(session.trace)
    return traces


def session_for(experiment, case: Case, cells: list[Cell] | None) -> Session:
    """Return the session of a configuration, with the optimum of its problem where a metric needs that."""
    target = [] if experiment.target is None else [experiment.target.metric]
    needed = {"gap", "distance", "dual_gap"} & {*(experiment.run.metrics or ()), *target}
    return session_of(experiment, case.built, optimum=case.optimum if needed else None, cells=cells)


def chunks(session: Session) -> Iterator[int]:
    """Play a session, and yield the rounds of each chunk."""
    before = 0
    for _ in session.play():
        yield session.round - before
        before = session.round


def rows_of(program: Program, run: Run, trace: Trace) -> pl.DataFrame:
    """Return the rows of a run up to the one at which its goals are reached, with its key and whether it diverged."""
    frame = trace.frame
    end = last_row(list(program.stops), frame)
    diverged = trace.diverged is not None and end is None
    own = (pl.lit(run.key).alias("run"), "*", pl.lit(diverged).alias("diverged"))
    return (frame if end is None else frame[: end + 1]).select(own)


def sentence(error: BaseException) -> str:
    """Return the first line of an error, with its type unless it is the user's."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return line if isinstance(error, UserError) else f"{line} ({type(error).__name__})"
