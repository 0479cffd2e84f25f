"""turnout sweep: a study of one configuration in several settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson
from turnout.cli.options import Data, StudyOut, Workers, value_of
from turnout.cli.study import conduct
from turnout.core.errors import UserError

if TYPE_CHECKING:
    from turnout.studies.sources import Source

Grid = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=V1,V2,...", help="Values of any key, such as algorithm.gamma=1,10 or sampler.size=2,4."),
]
Seeds = Annotated[str | None, typer.Option("--seeds", metavar="S1,S2,...", help="Seeds of the runs of every setting.")]


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML); its [sweep] is the grid.", metavar="FILE.toml")],
    out: StudyOut,
    grid: Grid = None,
    seeds: Seeds = None,
    workers: Workers = 1,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Run a configuration in all settings of a grid with several seeds, and find the cheapest setting: a study of one method."""
    conduct(swept(file, grid, seeds), out, workers=workers, data=data, as_json=as_json)


def swept(file: Path, grid: list[str] | None, seeds: str | None) -> "Source":
    """Return the study of a configuration with further values for its [sweep]."""
    from turnout.studies.configurations import as_study, read_configuration

    path, text, tables = read_configuration(file)
    values = dict(_values(option) for option in [*(grid or []), *([f"seed={seeds}"] if seeds else [])])
    whole = {**tables.get("sweep", {}), **values}
    if not whole:
        raise UserError(f"{file} has no [sweep] table: add one, or give --set NAME=V1,V2,...")
    return as_study([(path, text, {**tables, "sweep": whole})])


def _values(option: str) -> tuple[str, list[Any]]:
    """Read "name=1,2.5" into a name and its values; what is no value of TOML is text."""
    name, equals, values = option.partition("=")
    if not (name and equals and values):
        raise UserError(f"--set {option}: write a name and values, such as algorithm.gamma=1,10")
    return name, [value_of(word.strip()) for word in values.split(",")]
