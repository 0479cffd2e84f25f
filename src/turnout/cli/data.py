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


@commands.command("write")
def write_file(
    source: Annotated[Path, typer.Argument(help="A configuration, or a parquet or CSV table of any size.")],
    out: Annotated[Path, typer.Argument(help="The new client file, such as clients.arrow.")],
    data: Data = None,
    client: Annotated[str | None, typer.Option(help="The table's column of clients.", show_default=False)] = None,
    label: Annotated[str, typer.Option(help="The table's column of labels.")] = "label",
    single: Annotated[bool, typer.Option("--single", help="Write numbers in 32 bits.")] = False,
) -> None:
    """Write the clients of a configuration, or of a table, to a file from which runs read them when they are drawn."""
    from turnout.data import NaturalSplit, load
    from turnout.data.client_writer import write_clients
    from turnout.experiment.config import read
    from turnout.experiment.problem_specs import DataSpec

    precision = "single" if single else "double"
    if source.suffix != ".toml":
        if client is None:
            raise UserError(f"{source} is a table: name its column of clients by --client")
        write_clients(out, source, client=client, label=label, precision=precision)
    else:
        experiment = read(source)
        if not isinstance(experiment.problem, DataSpec):
            raise UserError(f"{source} has no data to write: its problem is made of numbers of its own")
        dataset = load(experiment.problem.data, data).normalized(experiment.problem.normalize)
        write_clients(out, dataset, experiment.split.split(dataset), precision=precision)
    written = load(out)
    clients = NaturalSplit().split(written).clients
    typer.echo(
        f"{out} has {clients:,} clients with {written.rows:,} rows: set [problem] data to it, and [split] kind to 'natural'"
    )
