"""turnout data: list and download the known data sets."""

import os
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data
from turnout.core.errors import UserError

commands = typer.Typer(help="List the known data sets, or download one.", no_args_is_help=True)
app.add_typer(commands, name="data")


@commands.command("list")
def list_sets(data: Data = None) -> None:
    """List the known data sets with size, origin, checksum and place."""
    from rich.console import Console
    from rich.table import Table

    from turnout.data.catalogue import CATALOGUE, present

    table = Table("name", "rows", "features", "classes", "from", "sha256 of the content", "present")
    for entry in CATALOGUE.values():
        where = "bundled" if entry.bundled else "generated" if entry.generated else present(entry.name, data)
        table.add_row(
            entry.name,
            f"{entry.rows:,}",
            f"{entry.features:,}",
            str(entry.classes or "-"),
            entry.origin,
            (entry.checksum or "-")[:12],
            str(where or "no"),
        )
    Console(width=None if os.isatty(1) else 160).print(table)


@commands.command("fetch")
def fetch_set(
    name: Annotated[str, typer.Argument(help="A name from `turnout data list`.")],
    data: Data = None,
    base_url: Annotated[str | None, typer.Option(help="Another site with the same files.", show_default=False)] = None,
) -> None:
    """Download a data set from its public site and verify its checksum, or its shape if no checksum is known."""
    from turnout.data import catalogue

    folder = data or (Path(os.environ["TURNOUT_DATA"]) if os.environ.get("TURNOUT_DATA") else None)
    if folder is None:
        raise UserError("no folder for the data is given: give --data DIR or set TURNOUT_DATA")
    options = {"base_url": base_url} if base_url else {}
    path = catalogue.fetch(name, folder, **options)
    has_checksum = catalogue.CATALOGUE[name].checksum is not None
    typer.echo(f"{name} is in {path}" + ("" if has_checksum else "; no checksum is known, so only its shape was verified"))
