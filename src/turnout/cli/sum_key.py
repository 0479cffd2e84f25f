"""turnout sum-key: the members' key for encrypted sums."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app


@app.command("sum-key")
def sum_key(file: Annotated[Path, typer.Argument(help="The new file.", metavar="FILE")]) -> None:
    """Write the key of the members of a federation for aggregation = "encrypted", once, by one of them."""
    from turnout.engines.encryption import write_key

    write_key(file)
    typer.echo(f"{file} is for all members, for turnout node --sum-key, and never for the operator of the server")
