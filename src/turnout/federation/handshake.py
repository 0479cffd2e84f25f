"""The fields of the handshake of a federation that runs a configuration."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from turnout.core.errors import UserError
from turnout.core.robust_means import RobustMean
from turnout.engines.flower.client_app import Handshake
from turnout.engines.inputs import SUMS
from turnout.engines.reply_usage import refuse_single_replies, sums_needed, survey
from turnout.experiment.build import Built, build, options_of
from turnout.experiment.experiment import Experiment
from turnout.experiment.remote_spec import RemoteSpec
from turnout.hubs.layout import Place, placed
from turnout.runs.hub_layout import refuse_processes, with_hubs
from turnout.runs.setup import bind, prepare, refuse_mixed, scope


def handshake_of(experiment: Experiment, built: Built) -> Handshake:
    """Return the fields on which the server and the nodes of `experiment` must agree.

    Args:
        experiment: The configuration.
        built: The problem built from it.
    """
    with scope(experiment.run.precision):
        file = experiment.run.start
        job = prepare(built.problem, experiment.run.purpose_seeds(), None, None, start=file)
        start = (job.start, job.others) if job.others else job.start
    exact = built.problem.remote or file is not None
    encrypted = experiment.run.aggregation == "encrypted"
    schema = "" if built.problem.schema is None else built.problem.schema.digest
    # Where members may lie, the first of them shall not decide who else is admitted.
    schema = None if isinstance(experiment.run.aggregation, RobustMean) else schema
    text = replace(experiment, federation=None).to_toml()
    return Handshake.of(text, experiment.run.precision, start, exact, encrypted, schema)


def build_for_federation(experiment: Experiment, data: Path | None) -> Built:
    """Build `experiment` without the data of remote clients; each of these is taken to have one row.

    `UserError` if a federation cannot run the experiment.

    Args:
        experiment: The configuration.
        data: Folder with data files; None for the default folders.
    """
    remote = isinstance(experiment.problem, RemoteSpec)
    built = build(experiment, data, [1] * experiment.problem.clients if remote else None)
    built = replace(built, problem=with_hubs(built.problem, experiment.hubs))
    check_for_federation(experiment, built)
    return built


def check_for_federation(experiment: Experiment, built: Built) -> None:
    """Raise `UserError` if a federation cannot run the experiment.

    Args:
        experiment: The configuration.
        built: The problem built from it.
    """
    if experiment.sweep:
        raise UserError(f"{experiment.name} has a [sweep] table, whose runs share one program: run it with turnout sweep")
    refuse_mixed(built.problem, experiment.run.precision)
    if experiment.hubs is not None:
        hubs = experiment.hubs.bind(built.problem.population)
        refuse_processes(hubs, experiment.algorithm, options_of(experiment, built))
    if experiment.run.aggregation != "plain":
        with scope(experiment.run.precision):
            job = prepare(built.problem, experiment.run.purpose_seeds(), None, None)
            algorithm = bind(experiment.algorithm, built.problem, experiment.run.rounds)
            surveyed = survey(job, algorithm)
        if experiment.run.aggregation in SUMS:
            sums_needed(surveyed, "aggregation = 'plain'")
        else:
            refuse_single_replies(surveyed)


def hubs_of_each(experiment: Experiment, built: Built) -> list[Place]:
    """Return the place of the lowest hub of each client of `experiment`; `UserError` where it has none.

    Args:
        experiment: The configuration.
        built: The problem built from it.
    """
    if experiment.hubs is None:
        raise UserError(f"{experiment.name} has no hubs: add [hubs], or leave turnout hub out")
    return placed(np.asarray(experiment.hubs.bind(built.problem.population).groups))
