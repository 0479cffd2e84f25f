"""The two apps of a Flower project, for nodes and servers that Flower starts itself; see `turnout new-federation`."""

from pathlib import Path

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

import turnout.engines.flower.server_app
from turnout.core.errors import UserError
from turnout.engines.flower.client_app import NodeApp
from turnout.experiment.config import read
from turnout.federation.handshake import build_for_federation
from turnout.federation.server import connect_clients, start_or_resume
from turnout.federation.site import service_of


def client_app(file: Path) -> ClientApp:
    """Return the ClientApp of the configuration `file`.

    The node's configuration gives `partition-id`, the client's number, and may give `states`, the folder of its private states.

    Args:
        file: The configuration (TOML), the same as the server's.
    """
    experiment = read(file)
    built = build_for_federation(experiment, None)

    def serve(config: dict):
        if "partition-id" not in config:
            raise UserError("a node needs the number of its client: give it --node-config 'partition-id=0', 1 and so on")
        number = int(config["partition-id"])
        return service_of(experiment, built, number, Path(config.get("states", f"states-{number}")))

    return NodeApp(serve)


def server_app(file: Path) -> ServerApp:
    """Return the ServerApp of the configuration `file`.

    The run's configuration gives `out`, the folder of the results; `deadline`, the seconds for an exchange; and `patience`, the
    seconds to wait for all clients at the beginning.

    Args:
        file: The configuration (TOML), the same as the nodes'.
    """

    def run(grid, config: dict) -> None:
        mailbox, nodes = connect_clients(grid, read(file), None, config["deadline"], config["patience"])
        start_or_resume(mailbox, nodes, file, Path(config["out"]), None, lambda session: None, f"flwr run {file.parent}")

    return turnout.engines.flower.server_app.server_app(run)
