"""turnout node: one client of a federation."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data, needing_flower


def _alone(context: typer.Context, request: Path | None) -> Path | None:
    """Do without the other options if there is a request to write."""
    context.resilient_parsing = context.resilient_parsing or request is not None
    return request


@app.command()
def node(
    file: Annotated[
        Path, typer.Argument(help="Configuration (TOML): the server's, unless there is a policy.", metavar="FILE.toml")
    ],
    client: Annotated[int, typer.Option(help="The client's number, from 0.", min=0)],
    superlink: Annotated[str, typer.Option(help="Address of the SuperLink.", metavar="HOST:PORT")],
    authority: Annotated[Path, typer.Option(help="Certificate of the authority that signed the SuperLink's.")],
    key: Annotated[Path, typer.Option(help="The node's private key.")],
    states: Annotated[Path, typer.Option(help="Folder for the client's private states.")],
    log: Annotated[
        Path | None, typer.Option(help="Log for turnout audit; default: in the folder of states.", show_default=False)
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="What this site allows; the server's configuration may be any within it.", show_default=False),
    ] = None,
    request: Annotated[
        Path | None,
        typer.Option(
            callback=_alone,
            is_eager=True,
            help="Write a private key and a request to register it, and nothing else.",
            show_default=False,
            metavar="SITE.csr",
        ),
    ] = None,
    data: Data = None,
) -> None:
    """Run one client of a federation, until stopped."""
    with needing_flower():
        from turnout.engines.flower.key_request import write_request
        from turnout.engines.flower.keys import read_node_key
        from turnout.engines.flower.node_connection import serve
        from turnout.federation.site import app_of

    if request is not None:
        typer.echo(f"{write_request(request)} is the private key of this site, and stays here")
        typer.echo(f"{request} is for the operator of the federation: turnout register DIR {request}")
        return
    serve(app_of(file, client, states, data, log, policy), superlink, authority, read_node_key(key))
