"""turnout superlink: Flower's SuperLink, guarded."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import needing_flower


@app.command()
def superlink(
    keys: Annotated[Path, typer.Argument(help="Folder that turnout certify made; messages are kept there too.", metavar="DIR")],
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 is every one of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at.")] = 9092,
) -> None:
    """Keep a federation's messages until they are fetched, until stopped; TLS, node keys and a secret word guard them."""
    with needing_flower():
        from turnout.federation.local import keep_superlink

    raise typer.Exit(keep_superlink(keys, host, port))
