"""A run's folder: what is in it while the run goes on, and what is left when it ends."""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import jax
import numpy as np

from turnout.data.catalogue import load
from turnout.data.dataset import digest
from turnout.data.splits import Split
from turnout.errors import UserError
from turnout.experiment.config import Experiment, read
from turnout.experiment.files import make_folder, write
from turnout.experiment.summary import summarise
from turnout.problem import Problem
from turnout.seeds import Seeds
from turnout.session import Session
from turnout.wire import decode, encode

CONFIG, CHECKPOINT, SUMMARY, TRACE = "config.toml", "checkpoint.safetensors", "summary.json", "trace.parquet"
OUTPUTS = (CONFIG, CHECKPOINT, SUMMARY, TRACE, "runs.json")

Watch = Callable[[Session], None]


@dataclass(frozen=True)
class Built:
    """A configuration made concrete: the problem, how its rows were split, and a digest of data and configuration."""

    problem: Problem
    split: Split
    digest: str


def build(experiment: Experiment, data: Path | None) -> Built:
    """Load the data, split them and build the problem."""
    dataset = load(experiment.problem.data, data).normalized(experiment.problem.normalize)
    split = experiment.split.split(dataset)
    mark = sha256((digest(dataset) + experiment.to_toml()).encode()).hexdigest()
    return Built(experiment.problem.build(dataset, split), split, mark)


def session_of(experiment: Experiment, problem: Problem, optimum=None) -> Session:
    """Return the session that plays `experiment`."""
    spec = experiment.run
    seeds = spec.seeds()
    return Session(
        experiment.algorithm,
        problem,
        seeds=Seeds(seeds["sampling"], seeds["local"], seeds["faults"]),
        model_seed=seeds["model"],
        rounds=spec.rounds,
        every=spec.every,
        target=experiment.target,
        metrics=None if spec.metrics is None else tuple(spec.metrics),
        engine=spec.engine,
        precision=spec.precision,
        faults=experiment.faults,
        optimum=optimum,
        memory=spec.memory,
        label=experiment.name,
    )


def new_folder(folder: Path) -> Path:
    """Return `folder`, made if need be; one that holds results already is refused."""
    for name in OUTPUTS:
        if (folder / name).exists():
            hint = f"turnout resume {folder} goes on with it" if (folder / CHECKPOINT).exists() else "choose another --out"
            raise UserError(f"{folder} holds another run ({name}): {hint}")
    return make_folder(folder)


def start(experiment: Experiment, folder: Path, data: Path | None, watch: Watch, command: str) -> Session:
    """Play `experiment` in a new `folder`."""
    built = build(experiment, data)
    session = session_of(experiment, built.problem)
    write(new_folder(folder) / CONFIG, experiment.to_toml())
    return _play(experiment, built, session, folder, watch, command)


def resume(folder: Path, data: Path | None, watch: Watch, command: str) -> Session | None:
    """Play the run in `folder` to its end from its last checkpoint; None if it had ended already."""
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder} holds no run: there is no {CONFIG} in it")
    if (folder / SUMMARY).exists():
        return None
    experiment = read(folder / CONFIG)
    built = build(experiment, data)
    session = session_of(experiment, built.problem)
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
    trace = session.trace
    write(folder / "split.npz", _npz({"indices": built.split.indices, "offsets": built.split.offsets}))
    write(folder / "model.npz", _npz(named_leaves(trace.x)))
    write(folder / TRACE, _parquet(trace.frame))
    write(folder / SUMMARY, summarise(experiment, built.problem, session, command, time.perf_counter() - began))
    report([folder], folder, experiment.name)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    if trace.diverged is not None:
        raise UserError(
            f"{experiment.name} diverged at round {trace.diverged}: the last good model, of round "
            f"{trace.columns['round'][-1]}, is in {folder / 'model.npz'}; lower the step size"
        )
    return session


def report(runs: list[Path], folder: Path, title: str) -> None:
    """Write the report and the figures that compare `runs` to `folder`."""
    from turnout.report.page import write_figures, write_report
    from turnout.report.result import Result

    results = [Result.read(run) for run in runs]
    write_figures(folder, results)
    write_report(folder, results, title)


def named_leaves(x) -> dict[str, np.ndarray]:
    """Name the arrays of the parameters: "x" for a single one, "x.hidden.weight" and so on inside dictionaries."""
    leaves = jax.tree_util.tree_leaves_with_path(x)
    return {".".join(["x", *(jax.tree_util.keystr((key,), simple=True) for key in path)]): leaf for path, leaf in leaves}


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _parquet(frame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()
