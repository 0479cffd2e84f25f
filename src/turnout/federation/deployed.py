"""The local federation of a configuration, which `turnout deploy` runs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from turnout.engines.encryption import write_key
from turnout.engines.flower.server_connection import Server
from turnout.experiment.config import read
from turnout.federation.handshake import build_for_federation, hubs_of_each
from turnout.federation.local import SUM_KEY, Federation
from turnout.federation.local_hubs import HubFederation
from turnout.federation.process_group import cores


def federation_of(folder: Path, file: Path, data: Path | None) -> Federation:
    """Return the processes for the configuration `file`, with their keys.

    Args:
        folder: Folder of certificates, keys, states and logs.
        file: File of the configuration.
        data: Folder with data files; None for the default folders.
    """
    experiment = read(file)
    built = build_for_federation(experiment, data)
    federation = (
        Federation(folder, file, built.problem.clients, data, cores())
        if experiment.hubs is None
        else HubFederation(folder, file, hubs_of_each(experiment, built), data)
    )
    if experiment.run.aggregation == "encrypted" and not (folder / SUM_KEY).exists():
        write_key(folder / SUM_KEY)
    return federation


@contextmanager
def local_federation(folder: Path, file: Path, data: Path | None) -> Iterator[Server]:
    """Run the SuperLink and the nodes of the configuration `file`, and yield the SuperLink.

    Args:
        folder: Folder of certificates, keys, states and logs.
        file: File of the configuration.
        data: Folder with data files; None for the default folders.
    """
    federation = federation_of(folder, file, data)
    with ExitStack() as stack:
        stack.callback(federation.stop)
        federation.start()
        stack.enter_context(federation.supervised())
        yield federation.server
