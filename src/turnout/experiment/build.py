"""From a configuration to its problem and its session."""

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from turnout.core.errors import UserError
from turnout.data.catalogue import load, load_test
from turnout.data.dataset import Dataset, digest
from turnout.data.holdout import hold_out, hold_rows
from turnout.data.splits import NaturalSplit, Split
from turnout.data.splits.split import AsStored
from turnout.experiment.experiment import Experiment, RunSpec
from turnout.experiment.problem_specs import DataSpec
from turnout.experiment.remote_spec import RemoteSpec
from turnout.privacy.accounting import import_dp_accounting
from turnout.problems.base import Problem
from turnout.problems.grouped import with_groups
from turnout.runs.session import Session
from turnout.runs.sweep import Cell


@dataclass(frozen=True)
class Built:
    """The problem of a configuration.

    Args:
        problem: The problem to train on.
        split: Which client has which rows; None for a problem made in Python.
        mark: What the digest is made of, beside the configuration.
        data: A digest of the data alone.
        test: The problem to test with.
        held_out: The problem of the clients that are held out.
        held_out_split: Which of those has which rows.
        test_split: Which client is tested with which of its own rows.
    """

    problem: Problem
    split: Split | None
    mark: str
    data: str = ""
    test: Problem | None = None
    held_out: Problem | None = None
    held_out_split: Split | None = None
    test_split: Split | None = None

    def digest(self, experiment: Experiment) -> str:
        """Return a digest of the data and a configuration.

        Args:
            experiment: The configuration.
        """
        return sha256((self.mark + experiment.to_toml()).encode()).hexdigest()


def build(experiment: Experiment, data: Path | None, sizes: list[int] | None = None) -> Built:
    """Load and split the data, and build the problem.

    `sizes` are the numbers of rows of remote clients, if these run elsewhere.

    Args:
        experiment: The configuration.
        data: Folder with data files; None for the default folders.
        sizes: Numbers of rows of remote clients, if these run elsewhere.
    """
    spec = experiment.problem
    start = "" if experiment.run.start is None else _file_digest(Path(experiment.run.start))
    if experiment.devices is not None and experiment.devices.trace is not None:
        start += _file_digest(Path(experiment.devices.trace))
    if not isinstance(spec, DataSpec):
        arguments = (sizes,) if isinstance(spec, RemoteSpec) else ()
        problem = grouped(experiment, spec.build(*arguments))
        return Built(problem, spec.split(*arguments), start, start + getattr(spec, "digest", ""))
    start += getattr(spec, "digest", "")
    plain = load(spec.data, data)
    dataset, held_out_split = plain.normalized(spec.normalize), None
    refuse_stored(dataset, experiment)
    split = experiment.split.split(dataset)
    if spec.held_out is not None:
        split, held_out_split = hold_out(split, spec.held_out, getattr(experiment.split, "seed", 0))
    own_test = None
    if spec.own_test is not None:
        split, own_test = hold_rows(split, spec.own_test, getattr(experiment.split, "seed", 0))
    if spec.held_out is not None or own_test is not None:
        dataset = plain.fitted(split.indices).normalized(spec.normalize, split.indices)
    mark, test = digest(dataset), None if own_test is None else spec.build(dataset, own_test)
    if spec.test is not None:
        test_set = load_test(spec.test, data, dataset)
        mark, test = mark + digest(test_set), spec.to_test(test_set, dataset)
    mark += start
    held_out = None if held_out_split is None else spec.build(dataset, held_out_split)
    problem = grouped(experiment, spec.build(dataset, split))
    made = None if isinstance(split, AsStored) else split
    return Built(problem, made, mark, mark, test, held_out, held_out_split, own_test)


def grouped(experiment: Experiment, problem: Problem) -> Problem:
    """Return a problem with the groups of a configuration, or those of its algorithm.

    Args:
        experiment: The configuration.
        problem: The problem.
    """
    algorithm = experiment.algorithm
    return with_groups(experiment.groups.of(problem), algorithm.model_groups, type(algorithm).__name__)


def refuse_stored(dataset: Dataset, experiment: Experiment) -> None:
    """Raise `UserError` where a data set has its clients already, but others are asked for.

    Args:
        dataset: The data set.
        experiment: The configuration.
    """
    if dataset.own_offsets is None:
        return
    if not isinstance(experiment.split, NaturalSplit) or experiment.split.clients is not None:
        raise UserError(
            f"{dataset.name} has its clients already: set [split] kind = 'natural' alone, or write another client file"
        )
    for name in ("held_out", "own_test"):
        if getattr(experiment.problem, name) is not None:
            raise UserError(
                f"{dataset.name} has its clients already: leave {name} out, or write those rows to a file of their own"
            )


def options_of(experiment: Experiment, built: Built) -> RunSpec:
    """Return the options of the run of `experiment`, with the problems that were built."""
    return replace(
        experiment.run,
        target=experiment.target,
        exchange=experiment.exchange,
        faults=experiment.faults,
        devices=experiment.devices,
        hubs=experiment.hubs,
        privacy=experiment.privacy,
        test=built.test,
        held_out=built.held_out,
    )


def session_of(
    experiment: Experiment, built: Built, optimum=None, engine=None, cells: list[Cell] | None = None, quick: bool = False,
    folder: Path | None = None,
) -> Session:  # fmt: skip
    """Return the session of `experiment`, with `engine` in the place of the configured one if it is given.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        optimum: The minimiser, if known.
        engine: Makes the engine; None for the configured one.
        cells: The cells of a sweep; None for a single run.
        quick: Whether the program of a sweep is made to compile quickly.
        folder: Folder of the run, if it is to be resumed from there.
    """
    if experiment.privacy is not None:
        import_dp_accounting()
    options = options_of(experiment, built)
    given = {"deployed": engine, "optimum": optimum, "label": experiment.name, "cells": cells, "quick": quick, "folder": folder}
    return Session(experiment.algorithm, built.problem, options, **given)


def _file_digest(path: Path) -> str:
    """Return the digest of a file, and "" if it does not exist; the session checks its content later."""
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
