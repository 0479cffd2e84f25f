"""turnout resume: go on with what was interrupted."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data, command


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of an interrupted run or comparison.", metavar="DIR")],
    data: Data = None,
) -> None:
    """Go on with an interrupted run from its last checkpoint; the results are those of an uninterrupted one."""
    from turnout.cli.progress import watching
    from turnout.cli.tables import show
    from turnout.experiment import comparison
    from turnout.experiment import run as folders
    from turnout.report.loaded_run import Result

    with watching() as watch:
        if comparison.is_comparison(folder):
            runs = comparison.finish(folder, data, watch, command())
        elif folders.resume(folder, data, watch, command()) is None:
            typer.echo(f"{folder} is finished: there is nothing to resume")
            return
        else:
            runs = [folder]
    show([Result.read(run) for run in runs], folder)
