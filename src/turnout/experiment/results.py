"""The files that a run leaves in its folder."""

import io
from pathlib import Path

import jax
import numpy as np

from turnout.experiment.build import Built
from turnout.experiment.describe import plan_of
from turnout.experiment.experiment import Experiment
from turnout.experiment.personal_models import MODEL, write_personal
from turnout.experiment.privacy_accounting import privacy_spent
from turnout.experiment.registry import kind_of
from turnout.experiment.summary import confusion_of, summarise, to_json
from turnout.experiment.theory import facts_of
from turnout.io.atomic import write
from turnout.io.parquet import parquet
from turnout.problems.base import Problem
from turnout.report.loaded_run import Result
from turnout.report.plan import PLAN
from turnout.runs.session import Session
from turnout.runs.trace import Trace

CONFIG, CHECKPOINT, SUMMARY, TRACE = "config.toml", "checkpoint.safetensors", "summary.json", "trace.parquet"
SPLIT, DEVICES, ARRIVALS, REPORT = "split.npz", "devices.csv", "arrivals.csv", "report.html"


def write_split(folder: Path, built: Built) -> None:
    """Write which client has which rows.

    Args:
        folder: Folder of the results.
        built: The problem built from it.
    """
    splits = {"": built.split, "held_out_": built.held_out_split, "test_": built.test_split}
    rows = {f"{name}{part}": getattr(split, part) for name, split in splits.items() if split for part in ("indices", "offsets")}
    write(folder / SPLIT, _npz(rows))


def write_run(experiment, problem: Problem, session: Session, folder: Path, command: str, seconds: float) -> None:
    """Write the results of one run.

    Args:
        experiment: The configuration.
        problem: The problem.
        session: The session of the run.
        folder: Folder of the results.
        command: The command line, for the summary.
        seconds: Duration of the run in seconds.
    """
    trace = session.trace
    _save(trace, folder, experiment, experiment.run.seed)
    write_personal(folder, trace, problem.clients)
    write(folder / TRACE, parquet(trace.frame))
    facts = summarise(experiment, problem, trace, command, seconds) | facts_of(experiment, problem, session)
    facts |= confusion_of(session) | session.engine.facts()
    speeds = session.engine.speeds()
    if speeds is not None:
        write(folder / DEVICES, speeds)
    arrivals = session.engine.arrivals()
    if arrivals is not None:
        write(folder / ARRIVALS, arrivals)
    if experiment.privacy is not None:
        facts["privacy"] = privacy_spent(experiment.privacy, session)
    facts["plan"] = PLAN.dump_python(plan_of(session), mode="json")
    write(folder / SUMMARY, to_json(facts))


def report(folder: Path, title: str) -> None:
    """Write the charts and the report of the finished run in `folder`.

    Args:
        folder: Folder of the results.
        title: Title of the page.
    """
    # Drawing is slow to import.
    from turnout.report.page import write_figures, write_report

    result = Result.read(folder)
    write_figures(folder, result)
    write_report(folder, result, title)


def _save(trace: Trace, folder: Path, experiment: Experiment, seed: int) -> None:
    """Write the final parameters of a run, with metadata."""
    kinds = {"algorithm": kind_of(experiment.algorithm), "problem": kind_of(experiment.problem)}
    trace.save_model(folder / MODEL, name=trace.label, seed=seed, jax=jax.__version__, **kinds)


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
