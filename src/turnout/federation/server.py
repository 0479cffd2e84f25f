"""The server of a federation that runs a configuration."""

from functools import partial
from pathlib import Path

from turnout.core.errors import UserError
from turnout.engines.flower.engine import Flower, Mailbox, NodeInfo, handshake
from turnout.experiment.config import Experiment, read
from turnout.experiment.results import CHECKPOINT, CONFIG, SUMMARY
from turnout.experiment.run import Watch, resume, start
from turnout.federation.handshake import build_for_federation, handshake_of

HANDSHAKE_TIMEOUT = 120.0
"""Seconds within which all nodes must answer the handshake."""


def connect_clients(
    grid, experiment: Experiment, data: Path | None, deadline: float, timeout: float = HANDSHAKE_TIMEOUT
) -> tuple[Mailbox, dict[int, NodeInfo]]:
    """Find the nodes of all clients of `experiment` within `timeout` seconds; an exchange may take `deadline` seconds.

    Args:
        grid: Connection to the SuperLink.
        experiment: The configuration.
        data: Folder with data files; None for the default folders.
        deadline: Seconds that an exchange waits for replies.
        timeout: Seconds to wait for all nodes.
    """
    mailbox, built = Mailbox(grid, deadline), build_for_federation(experiment, data)
    return mailbox, handshake(mailbox, handshake_of(experiment, built), built.problem.clients, timeout)


def start_or_resume(
    mailbox: Mailbox, nodes: dict[int, NodeInfo], file: Path, out: Path, data: Path | None, watch: Watch, command: str
) -> None:
    """Run the configuration `file` with `nodes` in the folder `out`, or resume the run of it in that folder.

    Args:
        mailbox: Sends the messages.
        nodes: Node of each client.
        file: File of the configuration.
        out: Folder of the results.
        data: Folder with data files; None for the default folders.
        watch: Called before the run and after each of its chunks.
        command: The command line, for the summary.
    """
    engine = partial(Flower, mailbox, nodes, (out / CHECKPOINT).exists())
    sizes = [nodes[i].rows for i in range(len(nodes))]
    if (out / CONFIG).exists() and not (out / SUMMARY).exists():
        if read(out / CONFIG).to_toml() != read(file).to_toml():
            raise UserError(f"{out} holds an unfinished run of another configuration than {file}: choose another --out")
        resume(out, data, watch, command, engine, sizes)
    else:
        start(read(file), out, data, watch, command, engine, sizes)
