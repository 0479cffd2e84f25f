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
from turnout.engines.flower.hub_members import HubsOfHub, NodesOfHub, reached
from turnout.engines.flower.hub_of_hubs import HubRelay
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
from turnout.experiment.config import read
from turnout.experiment.experiment import Experiment
from turnout.federation.handshake import build_for_federation, handshake_of, hubs_of_each
from turnout.federation.local import superlink_at, superlink_command
from turnout.federation.process_group import ProcessGroup
from turnout.hubs.layout import Place, written
from turnout.io.audit import AuditLog
from turnout.io.serialization import Buffer, decode
from turnout.problems.base import Precision
from turnout.runs.hub_layout import layout_of_processes
from turnout.runs.setup import bind, prepare, scope

FIRST_DEADLINE = 60.0
"""Seconds that nodes have for a reply before the server has said how long."""


def members_of_hub(experiment: Experiment, built: Built, place: Place) -> list[int | None]:
    """Return for each client the number of the hub below this one that it is connected to; its own number where there is none.

    None is for a client of other hubs. `UserError` where there is no such hub.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        place: The place of the hub.
    """
    places, depth = hubs_of_each(experiment, built), len(place)
    below = [(*hubs, client)[depth] if hubs[:depth] == place else None for client, hubs in enumerate(places)]
    if depth > len(places[0]) or below.count(None) == len(below):
        known = sorted({hubs[:k] for hubs in places for k in range(1, 1 + len(hubs))})
        first, last = (written(hub) for hub in (known[0], known[-1]))
        raise UserError(f"{experiment.name} has hubs {first} to {last}, so that no hub can be {written(place)}")
    return below


def service_of_hub(
    experiment: Experiment, built: Built, place: Place, mailbox: Mailbox, registry: Registry | RegistryFile, folder: Path | None
) -> HubService:
    """Return what a hub of `experiment` answers for.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        place: The place of the hub.
        mailbox: Reaches its nodes.
        registry: Its nodes by key: its clients in the order of their numbers, or the hubs below it.
        folder: Folder of the hub's own states; None keeps them in memory.
    """
    below, handshake = members_of_hub(experiment, built, place), handshake_of(experiment, built)
    own = [client for client, member in enumerate(below) if member is not None]
    job, algorithm = inputs_of_hub(experiment, built)
    with scope(experiment.run.precision):
        layout = layout_of_processes(experiment.hubs, job, algorithm, options_of(experiment, built))
    levels = len(layout.counts) - len(place)
    if levels:
        through, hubs = reached(mailbox, handshake, registry, below, job.start)
        nodes = HubsOfHub(through, handshake, hubs, below)
        job = replace(job, hubs=layout.below(levels))
    else:
        nodes = NodesOfHub(mailbox, handshake, registry, own, built.problem.clients)
    player = None
    if algorithm.addressed.works_in_hubs or layout.works:
        skips, double = job.faults is not None and job.faults.missing == "skip", experiment.run.precision == "double"
        states = None if folder is None else folder / f"{handshake.digest}-hub-{written(place)}"
        clients = Clients(nodes.mailbox, nodes, skips)
        with scope(experiment.run.precision):
            if isinstance(nodes, HubsOfHub) and algorithm.addressed.works_in_hubs:
                player = HubRelay(nodes, job, algorithm, clients, double)
            else:
                player = HubPlayer(own, job, algorithm, clients, double, states)
    expected = partial(expected_of, job, algorithm, experiment.run.precision)
    return HubService(place[-1], nodes, job.start, expected, player, lambda: os.kill(os.getpid(), signal.SIGTERM))


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
    file: Path, place: Place, superlink: str, authority: Path, key: Path, folder: Path, host: str, port: int, data: Path | None
) -> None:
    """Run a hub until it is stopped.

    Args:
        file: File of the configuration.
        place: The place of the hub.
        superlink: HOST:PORT of the SuperLink of the server, or of the hub above this one.
        authority: Certificate of the authority that signed its certificate.
        key: Private key of the hub.
        folder: Folder of `turnout certify` for the clients of the hub, or for the hubs below it.
        host: Address at which its own SuperLink listens.
        port: Port at which it listens.
        data: Folder with data files; None for the default folders.
    """
    keys.check_folder(folder)
    own_key, experiment, group = keys.read_node_key(key), read(file), ProcessGroup(folder)
    built = build_for_federation(experiment, data)
    below = {*members_of_hub(experiment, built, place)} - {None}
    registry = RegistryFile(folder, len(below))
    stop_at_sigterm()
    with ExitStack() as stack:
        stack.callback(group.stop)
        group.run("superlink", *superlink_command(folder, host, port))
        stack.enter_context(group.supervised())
        grid = stack.enter_context(flower_run(superlink_at(f"localhost:{port}", folder)))
        service = service_of_hub(experiment, built, place, Mailbox(grid, FIRST_DEADLINE), registry, folder)
        service.log = AuditLog(folder / f"audit-hub-{written(place)}.jsonl")
        del built
        serve([(NodeApp(lambda _: service), own_key)], superlink, authority)
