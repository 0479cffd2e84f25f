"""A run's folder: what is in it while the run goes on, and what is left when it ends."""

import io
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import jax
import numpy as np

from turnout.core.errors import UserError
from turnout.data.catalogue import load
from turnout.data.dataset import digest
from turnout.data.holdout import hold_out
from turnout.data.splits import Split
from turnout.experiment.config import Experiment, read
from turnout.experiment.describe import plan_of
from turnout.experiment.privacy_accounting import accounting, spent
from turnout.experiment.problems import DataSpec
from turnout.experiment.registry import kind_of
from turnout.experiment.remote import RemoteSpec
from turnout.experiment.summary import summarise, to_json
from turnout.experiment.theory import facts_of
from turnout.io.atomic import make_folder, write
from turnout.io.serialization import decode, encode
from turnout.problems.base import Problem
from turnout.report.loaded_run import Result
from turnout.report.plan import PLAN
from turnout.runs.session import Session
from turnout.runs.sweep import Sweep, cells_of
from turnout.runs.trace import Trace

CONFIG, CHECKPOINT, SUMMARY, TRACE = "config.toml", "checkpoint.safetensors", "summary.json", "trace.parquet"
MODEL = "model.safetensors"
OUTPUTS = (CONFIG, CHECKPOINT, SUMMARY, TRACE, "runs.json")

SHOWN = 6
"""Settings of a sweep that its report draws."""

Watch = Callable[[Session], None]


@dataclass(frozen=True)
class Built:
    """A configuration made concrete: the problem, how its rows were split, a digest of both, the problem to test with, and the
    one of clients that are held out, with their rows."""

    problem: Problem
    split: Split
    digest: str
    test: Problem | None = None
    held_out: Problem | None = None
    others: Split | None = None


def build(experiment: Experiment, data: Path | None, sizes: list[int] | None = None) -> Built:
    """Load the data, split them and build the problem; one that needs no data is only built.

    Where clients are elsewhere that hold rows of their own, `sizes` says how many each has.
    """
    begun = "" if experiment.run.start is None else _digest(Path(experiment.run.start))
    if not isinstance(experiment.problem, DataSpec):
        mark = sha256((begun + experiment.to_toml()).encode()).hexdigest()
        told = (sizes,) if isinstance(experiment.problem, RemoteSpec) else ()
        return Built(experiment.problem.build(*told), experiment.problem.split(*told), mark)
    dataset = load(experiment.problem.data, data).normalized(experiment.problem.normalize)
    split = experiment.split.split(dataset)
    mark, test = digest(dataset), None
    if experiment.problem.test is not None:
        held = load(experiment.problem.test, data)
        mark, test = mark + digest(held), experiment.problem.to_test(held, dataset)
    mark = sha256((mark + begun + experiment.to_toml()).encode()).hexdigest()
    others = others_split = None
    if experiment.problem.held_out is not None:
        if experiment.problem.normalize == "columns":
            raise UserError("normalize = 'columns' scales by all rows, those of held-out clients too: take 'rows' or 'none'")
        split, others_split = hold_out(split, experiment.problem.held_out, getattr(experiment.split, "seed", 0))
        others = experiment.problem.build(dataset, others_split)
    return Built(experiment.problem.build(dataset, split), split, mark, test, others, others_split)


def session_of(experiment: Experiment, built: Built, optimum=None, engine=None) -> Session:
    """Return the session that plays `experiment`, with another engine than its own where one is given."""
    if experiment.privacy is not None:
        accounting()
    options = replace(
        experiment.run,
        target=experiment.target,
        faults=experiment.faults,
        privacy=experiment.privacy,
        test=built.test,
        held_out=built.held_out,
    )
    cells = cells_of(*grid_of(experiment)) if experiment.sweep else None
    return Session(
        experiment.algorithm, built.problem, options, deployed=engine, optimum=optimum, label=experiment.name, cells=cells
    )


def grid_of(experiment: Experiment) -> tuple[dict[str, list], list[int]]:
    """Return the hyper-parameters of the algorithm that a sweep goes through, and its seeds."""
    grid = {name.removeprefix("algorithm."): values for name, values in experiment.sweep.items()}
    seeds = grid.pop("run.seed", None) or grid.pop("seed", None) or [experiment.run.seed]
    if not all(isinstance(seed, int) and seed >= 0 for seed in seeds):
        raise UserError(f"sweep: seeds are whole numbers from 0, but they are {seeds}")
    return grid, seeds


def new_folder(folder: Path) -> Path:
    """Return `folder`, made if need be; one that holds results already is refused."""
    for name in OUTPUTS:
        if (folder / name).exists():
            unfinished = "" if (folder / SUMMARY).exists() else f", or go on with it by turnout resume {folder}"
            raise UserError(f"{folder} holds another run ({name}): choose another --out{unfinished}")
    return make_folder(folder)


def start(
    experiment: Experiment, folder: Path, data: Path | None, watch: Watch, command: str, engine=None, sizes=None
) -> Session:
    """Play `experiment` in a new `folder`."""
    built = build(experiment, data, sizes)
    new_folder(folder)
    session = session_of(experiment, built, engine=engine)
    write(folder / CONFIG, experiment.to_toml())
    return _play(experiment, built, session, folder, watch, command)


def resume(folder: Path, data: Path | None, watch: Watch, command: str, engine=None, sizes=None) -> Session | None:
    """Play the run in `folder` to its end from its last checkpoint; None if it had ended already."""
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder} holds no run: there is no {CONFIG} in it")
    if (folder / SUMMARY).exists():
        return None
    experiment = read(folder / CONFIG)
    built = build(experiment, data, sizes)
    session = session_of(experiment, built, engine=engine)
    checkpoint = folder / CHECKPOINT
    if checkpoint.exists():
        snapshot, header = decode(checkpoint.read_bytes(), None)
        if header.get("digest") != built.digest:
            raise UserError(f"{checkpoint} was made with other data or another configuration than {CONFIG}: restore those")
        session.restore(snapshot)
    return _play(experiment, built, session, folder, watch, command)


def _play(experiment, built: Built, session: Session, folder: Path, watch: Watch, command: str) -> Session:
    """Play to the end with a checkpoint after each chunk, then write the results."""
    began = time.perf_counter()
    watch(session)
    for _ in session.play():
        write(folder / CHECKPOINT, encode(session.snapshot(), None, {"digest": built.digest}))
        watch(session)
    seconds = time.perf_counter() - began
    parts = {"": built.split, "held_out_": built.others}
    rows = {f"{name}{part}": getattr(split, part) for name, split in parts.items() if split for part in ("indices", "offsets")}
    write(folder / "split.npz", _npz(rows))
    finish = finish_sweep if experiment.sweep else finish_run
    finish(experiment, built.problem, session, folder, command, seconds)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    trace = session.trace
    if trace.diverged is not None and not experiment.sweep:
        raise UserError(
            f"{experiment.name} diverged at round {trace.diverged}: the last good model, of round "
            f"{trace.columns['round'][-1]}, is in {folder / MODEL}; lower the step size"
        )
    return session


def finish_run(experiment, problem: Problem, session: Session, folder: Path, command: str, seconds: float) -> None:
    """Write the results of one run."""
    trace = session.trace
    _save(trace, folder, experiment, experiment.run.seed)
    write(folder / TRACE, _parquet(trace.frame))
    facts = {**summarise(experiment, problem, trace, command, seconds), **facts_of(experiment, problem, session)}
    if experiment.privacy is not None:
        facts["privacy"] = spent(experiment.privacy, session)
    facts["plan"] = PLAN.dump_python(plan_of(session), mode="json")
    write(folder / SUMMARY, to_json(facts))
    report([Result.read(folder)], folder, experiment.name)


def finish_sweep(experiment, problem: Problem, session: Session, folder: Path, command: str, seconds: float) -> None:
    """Write the results of a sweep: all rows, the cost of every setting, and a report of the cheapest ones."""
    swept = Sweep(session.cells, session.traces)
    costs = {price.label: swept.costs(price).to_dicts() for price in experiment.prices}
    best = [swept.typical(setting, experiment.prices[0]) for setting in costs[experiment.prices[0].label][:SHOWN]]
    summaries = [summarise(experiment, problem, trace, command, seconds) for trace in best]
    seed = next(cell.seed for cell, trace in zip(session.cells, session.traces, strict=True) if trace is best[0])
    _save(best[0], folder, experiment, seed)
    write(folder / TRACE, _parquet(swept.frame))
    for row in (row for rows in costs.values() for row in rows):
        row["cost"] = row["cost"] if math.isfinite(row["cost"]) else None
    facts = {"cells": len(session.cells), "grid": experiment.sweep, "costs": costs}
    write(folder / SUMMARY, to_json({**summaries[0], "sweep": facts}))
    results = [Result(trace.label, facts, trace.frame) for trace, facts in zip(best, summaries, strict=True)]
    report(results, folder, experiment.name)


def report(results: list[Result], folder: Path, title: str) -> None:
    """Write the report and the figures that compare `results` to `folder`."""
    # Drawing is slow to import, and the last thing done.
    from turnout.report.page import write_figures, write_report

    write_figures(folder, results)
    write_report(folder, results, title)


def _save(trace: Trace, folder: Path, experiment: Experiment, seed: int) -> None:
    """Write the model of a run, with what it is of."""
    kinds = {"algorithm": kind_of(experiment.algorithm), "problem": kind_of(experiment.problem)}
    trace.save_model(folder / MODEL, name=trace.label, seed=seed, jax=jax.__version__, **kinds)


def _digest(path: Path) -> str:
    """Return the digest of the file that a run starts from; whether it is a model is seen later."""
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _parquet(frame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()
