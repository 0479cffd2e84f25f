"""turnout compare: run several configurations and compare their costs to the target."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data, Out, command


@app.command()
def compare(
    files: Annotated[list[Path], typer.Argument(help="Configurations (TOML).", metavar="FILE.toml...")],
    out: Out,
    data: Data = None,
) -> None:
    """Run several configurations and compare their costs to the target."""
    from turnout.cli.progress import watching
    from turnout.cli.tables import show
    from turnout.experiment import comparison, config
    from turnout.report.loaded_run import Result

    experiments = [config.read(file) for file in files]
    with watching() as watch:
        runs = comparison.start(experiments, out, data, watch, command())
    show([Result.read(run) for run in runs], out)
