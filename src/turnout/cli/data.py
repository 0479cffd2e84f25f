"""turnout data: what data sets are known, and how to get them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.core.errors import UserError

commands = typer.Typer(help="Known data sets: list them, fetch one.", no_args_is_help=True)
app.add_typer(commands, name="data")

Folder = Annotated[Path | None, typer.Option("--data", help="Folder for data files; else $TURNOUT_DATA.", show_default=False)]


@commands.command("list")
def list_sets(data: Folder = None) -> None:
    """List the known data sets: size, origin, checksum, and whether they are present."""
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
    name: Annotated[str, typer.Argument(help="A name that `turnout data list` shows.")],
    data: Folder = None,
    base_url: Annotated[str | None, typer.Option(help="Another site with the same files.", show_default=False)] = None,
) -> None:
    """Download a data set from the public LIBSVM site and verify its content, or its shape where no checksum is known."""
    from turnout.data import catalogue

    folder = data or (Path(os.environ["TURNOUT_DATA"]) if os.environ.get("TURNOUT_DATA") else None)
    if folder is None:
        raise UserError("say where to keep the data: give --data DIR or set TURNOUT_DATA")
    options = {"base_url": base_url} if base_url else {}
    path = catalogue.fetch(name, folder, **options)
    known = catalogue.CATALOGUE[name].checksum is not None
    typer.echo(f"{name} is in {path}" + ("" if known else "; its checksum is not known, so only its shape was verified"))
