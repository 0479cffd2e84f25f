"""turnout compare: a study of several configurations."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson
from turnout.cli.options import Data, StudyOut, Workers
from turnout.cli.study import conduct


@app.command()
def compare(
    files: Annotated[list[Path], typer.Argument(help="Configurations (TOML).", metavar="FILE.toml...")],
    out: StudyOut,
    workers: Workers = 1,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Run several configurations and compare their costs to the target: a study with a method for each."""
    conduct(files, out, workers=workers, data=data, as_json=as_json)
