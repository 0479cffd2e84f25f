"""turnout register: add a site to a federation, or replace its key."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Keys, needing_flower


@app.command()
def register(
    folder: Keys,
    request: Annotated[Path, typer.Argument(help="The site's request, of turnout node --request.", metavar="SITE.csr")],
    client: Annotated[
        str | None, typer.Option(help="Number or name of a client whose key this replaces.", show_default=False)
    ] = None,
) -> None:
    """Add the site of a request to a federation, or replace a client's key; a SuperLink that runs admits it at once."""
    with needing_flower():
        from turnout.engines.flower import membership

    number = membership.register(folder, request, client)
    typer.echo(f"registered as client {number}; the site starts its node with --client {number} and its own key")
