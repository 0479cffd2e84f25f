"""turnout data: list, show, download and write data sets."""

import os
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json
from turnout.cli.options import Data
from turnout.core.errors import UserError

commands = typer.Typer(help="List, show, download and write data sets.", no_args_is_help=True)
app.add_typer(commands, name="data")


@commands.command("list")
def list_sets(data: Data = None, as_json: AsJson = False) -> None:
    """List the known data sets with size, origin, checksum and place."""
    from rich.console import Console
    from rich.table import Table

    from turnout.data.catalogue import CATALOGUE, present

    if as_json:
        told = "name", "rows", "features", "classes", "origin", "checksum", "bundled", "generated"
        facts = {name: {what: getattr(entry, what) for what in told} for name, entry in CATALOGUE.items()}
        echo_json([{**each, "present": present(name, data)} for name, each in facts.items()])
        return
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


@commands.command("show")
def show_set(
    name: Annotated[str, typer.Argument(help="A table or another file of data, a known name, or a configuration.")],
    data: Data = None,
    label: Annotated[str | None, typer.Option(help="The table's column of labels.", show_default=False)] = None,
    client: Annotated[str | None, typer.Option(help="The table's column of clients.", show_default=False)] = None,
    hub: Annotated[str | None, typer.Option(help="The table's column of hubs.", show_default=False)] = None,
    missing: Annotated[str | None, typer.Option(help="refuse, drop, mean or 'most frequent'.", show_default=False)] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the rules of its columns to this JSON file.", show_default=False)
    ] = None,
) -> None:
    """Show columns, types, gaps, classes and clients of data, and what becomes of them."""
    from turnout.data.shown import shown

    chosen = {"label": label, "client": client, "hub": hub, "missing": missing}
    source = _data_of(Path(name)) if Path(name).suffix == ".toml" else name
    for line in shown(source, data, {key: value for key, value in chosen.items() if value is not None}, save):
        typer.echo(line)


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

    precision = "single" if single else "double"
    if source.suffix != ".toml":
        if client is None:
            raise UserError(f"{source} is a table: name its column of clients by --client")
        write_clients(out, source, client=client, label=label, precision=precision)
    else:
        experiment = read(source)
        dataset = load(_data_of(source), data).normalized(experiment.problem.normalize)
        write_clients(out, dataset, experiment.split.split(dataset), precision=precision)
    written = load(out)
    clients = NaturalSplit().split(written).clients
    typer.echo(
        f"{out} has {clients:,} clients with {written.rows:,} rows: set [problem] data to it, and [split] kind to 'natural'"
    )


def _data_of(file: Path):
    """Return the data of a configuration, as `load` takes them."""
    from turnout.experiment.config import read
    from turnout.experiment.problem_specs import DataSpec

    problem = read(file).problem
    if not isinstance(problem, DataSpec):
        raise UserError(f"{file} has no data: its problem is made of numbers of its own")
    return problem.data
