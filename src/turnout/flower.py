"""The two apps of a Flower project, for nodes and servers that Flower starts itself; see `turnout new-federation`."""

from pathlib import Path

from turnout.engines.flower import desk, serverapp
from turnout.errors import UserError
from turnout.experiment.config import read
from turnout.experiment.federation import met, play, seated


def client_app(file: Path):
    """Return the ClientApp of the configuration `file`.

    The node's configuration gives `partition-id`, the client's number, and may give `states`, the folder of its private states,
    and `data`, that of data files.
    """

    def seat(config: dict):
        if "partition-id" not in config:
            raise UserError("a node needs the number of its client: give it --node-config 'partition-id=0', 1 and so on")
        number, data = int(config["partition-id"]), config.get("data")
        return seated(file, number, Path(config.get("states", f"states-{number}")), data and Path(data))

    return desk.client_app(seat)


def server_app(file: Path):
    """Return the ServerApp of the configuration `file`.

    The run's configuration gives `out`, the folder of the results, and may give `deadline` and `patience`, the seconds that an
    exchange and the meeting of all clients may take, and `data`, the folder of data files.
    """

    def main(grid, config: dict) -> None:
        data, out = config.get("data"), Path(config["out"])
        data = data and Path(data)
        post, members = met(grid, read(file), data, config.get("deadline", 600.0), config.get("patience", 600.0))
        play(post, members, file, out, data, lambda session: None, f"flwr run ({file})")

    return serverapp.server_app(main)
