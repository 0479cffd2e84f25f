"""A hub of a federation that runs a configuration: a node of the server's SuperLink, with a SuperLink for its own clients."""

import os
import signal
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.algorithm import Algorithm
from turnout.core.debugging import shape_of
from turnout.core.errors import UserError
from turnout.core.robust_means import RobustMean
from turnout.engines.coded_algorithm import coded
from turnout.engines.flower import keys
from turnout.engines.flower.client_app import NodeApp
from turnout.engines.flower.clients import Clients
from turnout.engines.flower.hosting import serve
from turnout.engines.flower.hub_members import NodesOfHub
from turnout.engines.flower.hub_player import HubPlayer, without_rows
from turnout.engines.flower.hub_service import HubService
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.node_connection import stop_at_sigterm
from turnout.engines.flower.registry import Registry, RegistryFile
from turnout.engines.flower.reply_checks import measures_of
from turnout.engines.flower.server_connection import flower_run
from turnout.engines.inputs import Job
from turnout.engines.messaging import first_reply
from turnout.engines.request import AskHeader, DecryptHeader, MeasureHeader, Refused, parse_header
from turnout.experiment.build import Built, options_of
from turnout.experiment.config import Experiment, read
from turnout.federation.handshake import build_for_federation, handshake_of, hub_of_each
from turnout.federation.local import superlink_at, superlink_command
from turnout.federation.process_group import ProcessGroup
from turnout.io.audit import AuditLog
from turnout.io.serialization import Buffer, decode
from turnout.problems.base import Precision
from turnout.runs.hub_layout import layout_of_processes
from turnout.runs.setup import bind, prepare, scope

FIRST_DEADLINE = 60.0
"""Seconds that nodes have for a reply before the server has said how long."""


def clients_of_hub(experiment: Experiment, built: Built, number: int) -> list[int]:
    """Return the clients of a hub of `experiment`; `UserError` where there is no such hub.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        number: Number of the hub.
    """
    of = hub_of_each(experiment, built)
    own = [client for client, hub in enumerate(of) if hub == number]
    if not own:
        raise UserError(f"{experiment.name} has hubs 0 to {max(of)}, so that no hub can be {number}")
    return own


def service_of_hub(
    experiment: Experiment, built: Built, number: int, mailbox: Mailbox, registry: Registry | RegistryFile, folder: Path | None
) -> HubService:
    """Return what a hub of `experiment` answers for.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        number: Number of the hub.
        mailbox: Reaches the nodes of its clients.
        registry: The clients of the hub by key, in the order of their numbers.
        folder: Folder of the hub's own states; None keeps them in memory.
    """
    own, handshake = clients_of_hub(experiment, built, number), handshake_of(experiment, built)
    nodes = NodesOfHub(mailbox, handshake, registry, own, built.problem.clients)
    job, algorithm = inputs_of_hub(experiment, built)
    player = None
    if algorithm.addressed.works_in_hubs or serves(experiment, built, job, algorithm):
        skips, double = job.faults is not None and job.faults.missing == "skip", experiment.run.precision == "double"
        states = None if folder is None else folder / f"{handshake.digest}-hub-{number}"
        with scope(experiment.run.precision):
            player = HubPlayer(number, job, algorithm, Clients(mailbox, nodes, skips), double, states)
    expected = partial(expected_of, job, algorithm, experiment.run.precision)
    return HubService(number, mailbox, nodes, job.start, expected, player, lambda: os.kill(os.getpid(), signal.SIGTERM))


def serves(experiment: Experiment, built: Built, job: Job, algorithm: Algorithm) -> bool:
    """Return whether hubs play rounds of the server, whose cohort is of their own clients.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        job: Inputs of the run without rows.
        algorithm: The algorithm, bound to the problem.
    """
    with scope(experiment.run.precision):
        return layout_of_processes(experiment.hubs, job, algorithm, options_of(experiment, built)).works


def inputs_of_hub(experiment: Experiment, built: Built) -> tuple[Job, Algorithm]:
    """Return the inputs of the run without rows, and the algorithm, bound to the problem.

    Args:
        experiment: The configuration.
        built: The problem built from it.
    """
    spec = experiment.run
    with scope(spec.precision):
        mixed = spec.precision == "mixed"
        job = prepare(built.problem, spec.purpose_seeds(), experiment.faults, None, start=spec.start, mixed=mixed)
        algorithm = coded(job, bind(experiment.algorithm, built.problem, spec.rounds), experiment.exchange)
        robust = spec.aggregation if isinstance(spec.aggregation, RobustMean) else None
        return without_rows(replace(job, robust=robust)), algorithm


def expected_of(job: Job, algorithm: Algorithm, precision: Precision, kind: str, header: bytes, body: Buffer) -> PyTree:
    """Return shapes and types of a reply to a request.

    Args:
        job: Inputs of the run without rows.
        algorithm: The algorithm.
        precision: Precision of the run.
        kind: Kind of the request.
        header: Its header.
        body: Its body.
    """
    with scope(precision):
        if kind == "measure":
            return measures_of(parse_header(header, MeasureHeader).measure, job.start)
        if kind == "decrypt":
            # Only the server can read it.
            return jax.ShapeDtypeStruct((8 * parse_header(header, DecryptHeader).numbers,), np.dtype("uint8"))
        try:
            message, method = decode(body, job.start)[0], parse_header(header, AskHeader).method
            return shape_of(first_reply, job, algorithm, message, name=method)
        except UserError as error:
            raise Refused(str(error)) from None


def run_hub(
    file: Path, number: int, superlink: str, authority: Path, key: Path, folder: Path, host: str, port: int, data: Path | None
) -> None:
    """Run a hub until it is stopped.

    Args:
        file: File of the configuration.
        number: Number of the hub.
        superlink: HOST:PORT of the server's SuperLink.
        authority: Certificate of the authority that signed its certificate.
        key: Private key of the hub.
        folder: Folder of `turnout certify` for the clients of the hub.
        host: Address at which its own SuperLink listens.
        port: Port at which it listens.
        data: Folder with data files; None for the default folders.
    """
    keys.check_folder(folder)
    own_key, experiment, group = keys.read_node_key(key), read(file), ProcessGroup(folder)
    built = build_for_federation(experiment, data)
    registry = RegistryFile(folder, len(clients_of_hub(experiment, built, number)))
    stop_at_sigterm()
    with ExitStack() as stack:
        stack.callback(group.stop)
        group.run("superlink", *superlink_command(folder, host, port))
        stack.enter_context(group.supervised())
        grid = stack.enter_context(flower_run(superlink_at(f"localhost:{port}", folder)))
        service = service_of_hub(experiment, built, number, Mailbox(grid, FIRST_DEADLINE), registry, folder)
        service.log = AuditLog(folder / f"audit-hub-{number}.jsonl")
        del built
        serve([(NodeApp(lambda _: service), own_key)], superlink, authority)
