"""turnout revoke: refuse the node of a client from now on."""

from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Keys, needing_flower


@app.command()
def revoke(folder: Keys, client: Annotated[str, typer.Argument(help="Number or name of the client.", metavar="CLIENT")]) -> None:
    """Refuse the node of a client from its next request on, also after restarts."""
    with needing_flower():
        from turnout.engines.flower import membership

    typer.echo(f"{membership.revoke(folder, client)} is revoked; turnout register admits a new key of it")
