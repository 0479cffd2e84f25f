"""The server of a federation that runs a configuration."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from turnout.core.errors import UserError
from turnout.engines.flower.client_app import Handshake
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import Members, Watch, gathered
from turnout.engines.flower.hub_engine import HubFlower
from turnout.engines.flower.hub_members import ClientsOfHubs, reached
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.registry import Registry, RegistryFile
from turnout.experiment.build import Built
from turnout.experiment.config import read
from turnout.experiment.experiment import Experiment
from turnout.experiment.remote_spec import RemoteSpec
from turnout.experiment.results import CHECKPOINT, CONFIG, SUMMARY
from turnout.experiment.run import Watch as RunWatch
from turnout.experiment.run import resume, start
from turnout.federation.handshake import build_for_federation, handshake_of, hubs_of_each
from turnout.runs.setup import scope, starting

HANDSHAKE_TIMEOUT = 120.0
"""Seconds for which a further node may not answer the handshake."""


def connect_clients(
    grid,
    experiment: Experiment,
    data: Path | None,
    deadline: float,
    timeout: float = HANDSHAKE_TIMEOUT,
    keys: Path | None = None,
    watch: Watch | None = None,
) -> tuple[Mailbox, Members]:
    """Find the nodes of all clients of `experiment`, for as long as they keep coming; an exchange may take `deadline` seconds.

    Args:
        grid: Connection to the SuperLink.
        experiment: The configuration.
        data: Folder with data files; None for the default folders.
        deadline: Seconds that an exchange waits for replies.
        timeout: Seconds to wait for a further node.
        keys: Folder of `turnout certify`, whose registry says who has which key; None takes every node's word for who it is.
        watch: Told what the server waits for.
    """
    mailbox, built = Mailbox(grid, deadline), build_for_federation(experiment, data)
    count, faults = built.problem.clients, experiment.faults
    quorum, missing = None if experiment.federation is None else experiment.federation.start, faults and faults.missing
    if quorum is not None and missing not in ("skip", "repeat"):
        raise UserError("[federation] start lets a run begin without some clients: set [faults] missing to 'skip' or 'repeat'")
    expected = handshake_of(experiment, built)
    if experiment.hubs is not None:
        members = clients_of_hubs(experiment, built, mailbox, expected, keys, quorum, watch)
    else:
        registry = Registry.open(count) if keys is None else RegistryFile(keys, count)
        members = Members(mailbox, expected, registry, quorum, watch)
    return members.mailbox, gathered(members, timeout, missing == "skip")


def clients_of_hubs(
    experiment: Experiment,
    built: Built,
    mailbox: Mailbox,
    expected: Handshake,
    keys: Path | None,
    quorum: float | None,
    watch: Watch | None,
) -> ClientsOfHubs:
    """Return the clients of `experiment`, which are reached through hubs.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        mailbox: Reaches the hubs.
        expected: The fields of the handshake.
        keys: Folder of `turnout certify`, whose registry names the hubs.
        quorum: How many clients must be there, or which share.
        watch: Told what the server waits for.
    """
    if keys is None:
        raise UserError("hubs are known by their keys, which flwr run does not check: use turnout serve, or leave [hubs] out")
    of = [highest for highest, *_ in hubs_of_each(experiment, built)]
    with scope(experiment.run.precision):
        start, _ = starting(built.problem, experiment.run.purpose_seeds(), experiment.run.start)
    through, hubs = reached(mailbox, expected, RegistryFile(keys, 1 + max(of)), of, start)
    return ClientsOfHubs(through, expected, hubs, of, quorum, watch)


def start_or_resume(
    mailbox: Mailbox, nodes: Members, file: Path, out: Path, data: Path | None, watch: RunWatch, command: str
) -> None:
    """Run the configuration `file` with `nodes` in the folder `out`, or resume the run of it in that folder.

    Args:
        mailbox: Sends the messages.
        nodes: The clients and their nodes.
        file: File of the configuration.
        out: Folder of the results.
        data: Folder with data files; None for the default folders.
        watch: Called before the run and after each of its chunks.
        command: The command line, for the summary.
    """
    through_hubs = isinstance(nodes, ClientsOfHubs)
    engine = partial(HubFlower if through_hubs else Flower, mailbox, nodes, (out / CHECKPOINT).exists())
    sizes = sizes_of(nodes, read(file))
    if (out / CONFIG).exists() and not (out / SUMMARY).exists():
        here, there = (replace(read(each), federation=None).to_toml() for each in (file, out / CONFIG))
        if here != there:
            raise UserError(f"{out} holds an unfinished run of another configuration than {file}: choose another --out")
        resume(out, data, watch, command, engine, sizes)
    else:
        start(read(file), out, data, watch, command, engine, sizes)


def sizes_of(nodes: Members, experiment: Experiment) -> list[int]:
    """Return the clients' numbers of rows; one that is not known counts as 1, or is an error where it is the client's weight.

    Args:
        nodes: The clients and their nodes.
        experiment: The configuration.
    """
    weighed = isinstance(experiment.problem, RemoteSpec) and experiment.problem.weights == "size"
    for info in nodes.values():
        if weighed and info.rows == 0:
            raise UserError(
                f"{info.name} is absent, and its weight is its number of rows: write rows in clients.toml, or wait for it"
            )
    return [max(1, nodes[i].rows) for i in range(len(nodes))]
