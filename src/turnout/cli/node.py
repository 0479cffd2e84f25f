"""turnout node: one client of a federation."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data, needing_flower


@app.command()
def node(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML), the same as the server's.", metavar="FILE.toml")],
    client: Annotated[int, typer.Option(help="The client's number, from 0.", min=0)],
    superlink: Annotated[str, typer.Option(help="Address of the SuperLink.", metavar="HOST:PORT")],
    authority: Annotated[Path, typer.Option(help="Certificate of the authority that signed the SuperLink's.")],
    key: Annotated[Path, typer.Option(help="The node's private key.")],
    states: Annotated[Path, typer.Option(help="Folder for the client's private states.")],
    log: Annotated[
        Path | None, typer.Option(help="Log for turnout audit; default: in the folder of states.", show_default=False)
    ] = None,
    data: Data = None,
) -> None:
    """Run one client of a federation, until stopped."""
    with needing_flower():
        from turnout.federation.node import serve_client

    serve_client(file, client, superlink, authority, key, states, data, log)
