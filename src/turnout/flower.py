"""The two apps of a Flower project, for nodes and servers that Flower starts itself; see `turnout new-federation`."""

from pathlib import Path

from turnout.core.errors import UserError
from turnout.engines.flower import client_app as desk
from turnout.engines.flower import server_app as serverapp
from turnout.experiment.config import read
from turnout.federation.handshake import elsewhere, terms_of
from turnout.federation.node import node_of
from turnout.federation.server import met, play


def client_app(file: Path):
    """Return the ClientApp of the configuration `file`.

    The node's configuration gives `partition-id`, the client's number, and may give `states`, the folder of its private states.
    """
    experiment = read(file)
    built = elsewhere(experiment, None)

    def seat(config: dict):
        if "partition-id" not in config:
            raise UserError("a node needs the number of its client: give it --node-config 'partition-id=0', 1 and so on")
        number = int(config["partition-id"])
        return node_of(experiment, built, number, Path(config.get("states", f"states-{number}")))

    return desk.client_app(terms_of(experiment, built), seat)


def server_app(file: Path):
    """Return the ServerApp of the configuration `file`.

    The run's configuration gives `out`, the folder of the results, and `deadline` and `patience`, the seconds that an exchange
    and the meeting of all clients may take.
    """

    def main(grid, config: dict) -> None:
        post, members = met(grid, read(file), None, config["deadline"], config["patience"])
        play(post, members, file, Path(config["out"]), None, lambda session: None, f"flwr run {file.parent}")

    return serverapp.server_app(main)
