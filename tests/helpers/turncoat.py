"""A node that changes its federation when it is greeted: `python -m turncoat FOLDER CLIENT SUPERLINK AUTHORITY KEY`.

FOLDER/current names the configuration, FOLDER/NAME.toml, that it then answers for. So nodes need not be started for each.
"""

import sys
from pathlib import Path

import jax
from flwr.app import Context, Message

from turnout.engines.flower.hosting import serve
from turnout.engines.flower.keys import read_node_key
from turnout.federation.site import app_of


class Turncoat:
    """The app of a client in all the federations of a folder."""

    def __init__(self, folder: Path, client: int):
        self.folder, self.client, self.name = folder, client, ""

    def __call__(self, message: Message, context: Context) -> Message:
        name = (self.folder / "current").read_text()
        if message.metadata.message_type == "query.hello" and name != self.name:
            jax.clear_caches()
            states = self.folder / f"states-{self.client}" / name
            self.app, self.name = app_of(self.folder / f"{name}.toml", self.client, states, None), name
        return self.app(message, context)


def main() -> None:
    """Serve until stopped."""
    folder, client, address, authority, key = sys.argv[1:]
    serve([(Turncoat(Path(folder), int(client)), read_node_key(Path(key)))], address, Path(authority))


if __name__ == "__main__":
    main()
