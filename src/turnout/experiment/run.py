"""Runs in folders: start one, or resume one from its checkpoint."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from turnout.core.errors import UserError
from turnout.core.timing import part
from turnout.engines.processes import is_first
from turnout.engines.state_file import PATTERN as STATES
from turnout.experiment.build import Built, build, options_of, session_of
from turnout.experiment.config import read
from turnout.experiment.experiment import Experiment
from turnout.experiment.results import CHECKPOINT, CONFIG, MODEL, REPORT, SUMMARY, TRACE, report, write_run, write_split
from turnout.io.atomic import write
from turnout.io.claims import claimed
from turnout.io.serialization import decode, encode
from turnout.report.vega import script_ahead
from turnout.runs.going_on import Played, go_on
from turnout.runs.session import Session
from turnout.runs.setup import bind, scope
from turnout.runs.without_effect import tell_without_effect

OUTPUTS = (CONFIG, CHECKPOINT, SUMMARY, TRACE, "runs")
"""The files by which a folder is known to hold a run or a study."""

Watch = Callable[[Session], None]
"""Called before a run and after each of its chunks."""


def refuse_results(folder: Path) -> None:
    """Raise `UserError` if `folder` holds results."""
    for name in OUTPUTS:
        if (folder / name).exists():
            unfinished = "" if (folder / SUMMARY).exists() else f", or go on with it by turnout resume {folder}"
            raise UserError(f"{folder} holds another run ({name}): choose another --out{unfinished}")


def start(
    experiment: Experiment, folder: Path, data: Path | None, watch: Watch, command: str, engine=None, sizes=None
) -> Session:
    """Run `experiment` in a new `folder`.

    Args:
        experiment: The configuration.
        folder: A new folder.
        data: Folder with data files; None for the default folders.
        watch: Called before the run and after each of its chunks.
        command: The command line, for the summary.
        engine: Makes the engine; None for the configured one.
        sizes: Numbers of rows of remote clients, if these run elsewhere.
    """
    if is_first():
        script_ahead()
    with _claimed(folder):
        with part("data"):
            built = build(experiment, data, sizes)
        if is_first():
            refuse_results(folder)
        session = session_of(experiment, built, engine=engine, folder=folder)
        if is_first():
            tell_without_effect(session)
            write(folder / CONFIG, experiment.to_toml())
        return _run(experiment, built, session, folder, watch, command)


def extend(folder: Path, rounds: int, data: Path | None, watch: Watch, command: str) -> Session:
    """Give the finished run in `folder` more rounds, with the numbers of a run that had them from the start.

    Args:
        folder: Folder of a finished run.
        rounds: The number of rounds in all.
        data: Folder with data files; None for the default folders.
        watch: Called before the run and after each of its chunks.
        command: The command line, for the summary.

    Raises:
        UserError: The run diverged, its algorithm depends on the number of rounds, or its folder has no checkpoint.
    """
    before = configuration(folder)
    target = None if before.target is None else replace(before.target, stop=False)
    experiment = replace(before, run=replace(before.run, rounds=rounds), target=target)
    with _claimed(folder):
        with part("data"):
            built = build(experiment, data)
        session = session_of(experiment, built, folder=folder)
        snapshot, header = decode(_checkpoint(folder).read_bytes(), None)
        # The second where this command was interrupted before.
        _refuse_other(folder, header, built.digest(before), built.digest(experiment))
        with scope(session.precision):
            fitted = bind(before.algorithm, built.problem, before.run.rounds)
        go_on(session, Played(options_of(before, built), fitted, snapshot))
        if is_first():
            write(folder / CHECKPOINT, encode(session.snapshot(), None, {"digest": built.digest(experiment)}), private=True)
            write(folder / CONFIG, experiment.to_toml())
            (folder / SUMMARY).unlink(missing_ok=True)
        return _run(experiment, built, session, folder, watch, command)


def _checkpoint(folder: Path) -> Path:
    """Return the checkpoint of a finished run; `UserError` where there is none."""
    path = folder / CHECKPOINT
    if not path.exists():
        raise UserError(
            f"{folder} has no {CHECKPOINT}, which runs with differential privacy or states on disk do not keep: start anew"
        )
    return path


def _refuse_other(folder: Path, header: dict, *digests: str) -> None:
    """Raise `UserError` where a checkpoint's digest is none of those of its folder's data and configuration."""
    if header.get("digest") not in digests:
        raise UserError(f"{folder / CHECKPOINT} was made with other data or another configuration than {CONFIG}: restore those")


def _claimed(folder: Path) -> AbstractContextManager:
    """Claim the folder; of several processes the first one does."""
    return claimed(folder) if is_first() else nullcontext()


def resume(folder: Path, data: Path | None, watch: Watch, command: str, engine=None, sizes=None) -> Session | None:
    """Resume the run in `folder` from its last checkpoint; None if it is complete, or lacked its report alone.

    Args:
        folder: Folder of an unfinished run.
        data: Folder with data files; None for the default folders.
        watch: Called before the run and after each of its chunks.
        command: The command line, for the summary.
        engine: Makes the engine; None for the configured one.
        sizes: Numbers of rows of remote clients, if these run elsewhere.
    """
    experiment = configuration(folder)
    with _claimed(folder):
        if (folder / SUMMARY).exists():
            if not (folder / REPORT).exists():
                _finish(experiment, folder)
            return None
        with part("data"):
            built = build(experiment, data, sizes)
        session = session_of(experiment, built, engine=engine, folder=folder)
        checkpoint = folder / CHECKPOINT
        if checkpoint.exists():
            snapshot, header = decode(checkpoint.read_bytes(), None)
            _refuse_other(folder, header, built.digest(experiment))
            session.restore(snapshot)
        return _run(experiment, built, session, folder, watch, command)


def configuration(folder: Path) -> Experiment:
    """Return the configuration of the run in `folder`; `UserError` where there is none."""
    if not (folder / CONFIG).exists():
        study = " (a study goes on with the command that began it)" if (folder / "runs").is_dir() else ""
        raise UserError(f"{folder} holds no run: there is no {CONFIG} in it{study}")
    return read(folder / CONFIG)


def _run(experiment, built: Built, session: Session, folder: Path, watch: Watch, command: str) -> Session:
    """Run to the end with a checkpoint after each chunk, then write the results; of several processes the first one writes."""
    began = time.perf_counter()
    watch(session)
    for _ in session.play():
        snapshot = session.snapshot()
        if is_first():
            write(folder / CHECKPOINT, encode(snapshot, None, {"digest": built.digest(experiment)}), private=True)
        watch(session)
    if is_first():
        write_split(folder, built)
        (folder / REPORT).unlink(missing_ok=True)
        with part("report"):
            write_run(experiment, built.problem, session, folder, command, time.perf_counter() - began)
            _finish(experiment, folder)
    trace = session.trace
    if trace.diverged is not None:
        raise UserError(
            f"{session.divergence()}: the last good model, of round {trace.columns['round'][-1]}, is in {folder / MODEL}; "
            f"{session.advice()}"
        )
    return session


def _finish(experiment: Experiment, folder: Path) -> None:
    """Delete what finished runs do not keep, and write the report, which is the last file of a run."""
    states = [*folder.glob(STATES)]
    if experiment.privacy is not None or states:
        # Draws are secret and rounds accounted for, or the states of clients on disk are very large.
        for path in (folder / CHECKPOINT, *states):
            path.unlink(missing_ok=True)
    report(folder, experiment.name)
