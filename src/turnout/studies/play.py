"""Playing a program: its runs in, their rows out."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from turnout.core.errors import CannotWriteError, UserError
from turnout.engines.sweep import set_leaves
from turnout.experiment.build import session_of
from turnout.io.atomic import make_folder, write
from turnout.io.serialization import decode, encode
from turnout.runs.session import Session
from turnout.runs.sweep import Cell
from turnout.runs.trace import Trace, frame_of
from turnout.studies.cases import Case
from turnout.studies.fingerprint import fingerprint
from turnout.studies.goals import last_row
from turnout.studies.plan import Program
from turnout.studies.store import CHECKPOINT, ENDS

SECONDS, SHARE = 20.0, 0.05
"""The least time between two checkpoints, and the most of the time that they may take."""

LARGEST = 2**24
"""The most bytes that the end of a program's runs may take, to be kept."""

Report = Callable[[int], None]
"""Told the number of rounds that were played since it was last told; may raise to interrupt."""


@dataclass(frozen=True)
class Played:
    """What a program left: rows of its runs, the sentence about each run that broke, by its key, and the seconds it took.

    The seconds are those of each part, where another process played.
    """

    rows: pl.DataFrame
    broken: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict)


def play(program: Program, case: Case, report: Report, folder: Path) -> Played:
    """Play a program; where it breaks, each run alone, so that a broken one does not take others with it.

    A disk that is full breaks no program: `CannotWriteError` stops the study, which goes on with the same command.

    Args:
        program: The program.
        case: Its problem.
        report: Told the rounds that were played.
        folder: Where checkpoints are.
    """
    try:
        traces = traces_of(program, case, report, folder)
        return Played(rows_of(program, traces), {})
    except CannotWriteError:
        raise
    except Exception as error:
        if len(program.runs) == 1:
            return Played(pl.DataFrame(), {program.runs[0].key: sentence(error)})
    parts = [play(replace(program, runs=(run,)), case, report, folder) for run in program.runs]
    frames = [part.rows for part in parts if not part.rows.is_empty()]
    rows = pl.concat(frames, how="vertical_relaxed") if frames else pl.DataFrame()
    return Played(rows, {key: why for part in parts for key, why in part.broken.items()})


def traces_of(program: Program, case: Case, report: Report, folder: Path) -> list[Trace]:
    """Play all runs until each has reached its goals, from the checkpoint, or from the end of runs that had fewer rounds."""
    session, end = session_for(program, case), folder.parent / ENDS / f"{program.stem}{CHECKPOINT}"
    go_on_from(end, session)
    for done in chunks(session, folder / f"{program.key}{CHECKPOINT}"):
        report(done * len(program.runs))
        if program.stops and all(last_row(program.stops, trace.columns) is not None for trace in session.traces):
            break
    if program.experiment.privacy is None:
        keep_end(end, session)
    return session.traces


def keep_end(file: Path, session: Session) -> None:
    """Keep the end of runs, which can go on from there with more rounds, unless it is large.

    Args:
        file: The file.
        session: The session at its end.
    """
    content = encode(session.snapshot(), None, {"rounds": session.rounds, "fitted": fingerprint(session.fitted)})
    # With a last row that longer runs do not have, these would have to begin anew.
    if len(content) <= LARGEST and session.rounds % session.options.every == 0:
        make_folder(file.parent)
        write(file, content)


def go_on_from(file: Path, session: Session) -> None:
    """Let a session go on from the end of runs that had fewer rounds, if there is one and the algorithm is the same.

    Args:
        file: The file.
        session: A session that has not begun.
    """
    # Runs that cannot go on from what is there begin anew.
    with suppress(OSError, UserError):
        snapshot, facts = decode(file.read_bytes(), None)
        if facts["rounds"] < session.rounds and facts["fitted"] == fingerprint(session.fitted):
            session.restore(snapshot)


def session_for(program: Program, case: Case, *, quick: bool = False) -> Session:
    """Return the session of a program: its runs as the cells of a sweep, or its single run.

    It has the optimum of its problem where a metric needs that.

    Args:
        program: The program.
        case: Its problem.
        quick: Whether it is made to compile quickly, for short runs.
    """
    experiment, cells = program.experiment, None
    if program.compiled:
        cells = [Cell(run.leaves, run.seed) for run in program.runs]
    else:
        (run,) = program.runs
        options = replace(experiment.run, seed=run.seed)
        experiment = replace(experiment, algorithm=set_leaves(experiment.algorithm, run.leaves), run=options)
    target = [] if experiment.target is None else [experiment.target.metric]
    needed = {"gap", "distance", "dual_gap"} & {*(experiment.run.metrics or ()), *target}
    return session_of(experiment, case.built, optimum=case.optimum if needed else None, cells=cells, quick=quick)


def chunks(session: Session, checkpoint: Path) -> Iterator[int]:
    """Play a session from its checkpoint if there is one, and yield the rounds of each chunk; long ones leave checkpoints."""
    # A run that cannot go on from what is there begins anew.
    with suppress(OSError, UserError):
        session.restore(decode(checkpoint.read_bytes(), None)[0])
    before, pause, saved = 0, SECONDS, time.monotonic()
    for _ in session.play():
        if (began := time.monotonic()) - saved >= pause:
            write(checkpoint, encode(session.snapshot(), None, {}))
            saved = time.monotonic()
            pause = max(SECONDS, (saved - began) / SHARE)
        yield session.round - before
        before = session.round


def rows_of(program: Program, traces: list[Trace]) -> pl.DataFrame:
    """Return the rows of each run up to the one at which its goals are reached, with its key and whether it diverged."""
    ends = [last_row(program.stops, trace.columns) for trace in traces]
    lengths = [len(trace) if end is None else end + 1 for trace, end in zip(traces, ends, strict=True)]
    diverged = [trace.diverged is not None and end is None for trace, end in zip(traces, ends, strict=True)]
    first, *_ = traces
    columns = {
        name: np.concatenate([trace.columns[name][:length] for trace, length in zip(traces, lengths, strict=True)])
        for name in first.columns
    }
    keys = pl.Series("run", np.repeat([run.key for run in program.runs], lengths))
    return frame_of(first.sites, columns).select(keys, "*", pl.Series("diverged", np.repeat(diverged, lengths)))


def sentence(error: BaseException) -> str:
    """Return the first line of an error, with its type unless it is the user's."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return line if isinstance(error, UserError) else f"{line} ({type(error).__name__})"
