"""turnout hub: a hub of a federation, between the server and its own clients."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data, LogFormat, needing_flower


@app.command()
def hub(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML), the same as the server's.", metavar="FILE.toml")],
    hub: Annotated[str, typer.Option(help="The hub's number, from 0; with several levels 0.3 is hub 3 of hub 0.", metavar="K")],
    superlink: Annotated[
        str, typer.Option(help="Address of the SuperLink of the server, or of the hub above.", metavar="HOST:PORT")
    ],
    authority: Annotated[Path, typer.Option(help="Certificate of the authority that signed that SuperLink's.")],
    key: Annotated[Path, typer.Option(help="The hub's private key.")],
    keys: Annotated[
        Path, typer.Option(help="Folder of turnout certify for the clients of this hub, or the hubs below it.", metavar="DIR")
    ],
    host: Annotated[str, typer.Option(help="Address at which clients reach it; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port at which clients reach it.")] = 9092,
    data: Data = None,
    log_format: LogFormat = "text",
) -> None:
    """Run a hub, with the SuperLink of its clients, until stopped."""
    from turnout.core.errors import UserError

    with needing_flower(log_format):
        from turnout.federation.hub import run_hub

    if not all(number.isdecimal() for number in hub.split(".")):
        raise UserError(f"--hub is {hub!r}: give the hub's number, such as 3, or with several levels 0.3 for hub 3 of hub 0")
    run_hub(file, tuple(map(int, hub.split("."))), superlink, authority, key, keys, host, port, data)
