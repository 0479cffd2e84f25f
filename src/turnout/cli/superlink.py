"""turnout superlink: Flower's SuperLink, guarded."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import LogFormat, needing_flower


@app.command()
def superlink(
    keys: Annotated[Path, typer.Argument(help="Folder of turnout certify; messages are stored there too.", metavar="DIR")],
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at.")] = 9092,
    log_format: LogFormat = "text",
) -> None:
    """Run the SuperLink of a federation, which stores messages until they are fetched, until stopped."""
    with needing_flower(log_format):
        from turnout.federation.local import run_superlink

    raise typer.Exit(run_superlink(keys, host, port))
