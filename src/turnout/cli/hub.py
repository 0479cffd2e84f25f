"""turnout hub: a hub of a federation, between the server and its own clients."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data, LogFormat, needing_flower


@app.command()
def hub(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML), the same as the server's.", metavar="FILE.toml")],
    hub: Annotated[int, typer.Option(help="The hub's number, from 0.", min=0)],
    superlink: Annotated[str, typer.Option(help="Address of the server's SuperLink.", metavar="HOST:PORT")],
    authority: Annotated[Path, typer.Option(help="Certificate of the authority that signed that SuperLink's.")],
    key: Annotated[Path, typer.Option(help="The hub's private key.")],
    keys: Annotated[Path, typer.Option(help="Folder of turnout certify for the clients of this hub.", metavar="DIR")],
    host: Annotated[str, typer.Option(help="Address at which clients reach it; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port at which clients reach it.")] = 9092,
    data: Data = None,
    log_format: LogFormat = "text",
) -> None:
    """Run a hub, with the SuperLink of its clients, until stopped."""
    with needing_flower(log_format):
        from turnout.federation.hub import run_hub

    run_hub(file, hub, superlink, authority, key, keys, host, port, data)
