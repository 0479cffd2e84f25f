"""turnout sweep: a grid of hyper-parameters and seeds as one compiled program."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data, Out, command
from turnout.core.errors import UserError

Grid = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=V1,V2,...", help="Values of a hyper-parameter, such as algorithm.gamma=1,10."),
]
Seeds = Annotated[str | None, typer.Option("--seeds", metavar="S1,S2,...", help="Seeds of the runs of every setting.")]


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML); its [sweep] is the grid.", metavar="FILE.toml")],
    out: Out,
    grid: Grid = None,
    seeds: Seeds = None,
    data: Data = None,
) -> None:
    """Run a grid of hyper-parameters and seeds as one compiled program, and rank the settings by cost."""
    from dataclasses import replace

    from turnout.cli.progress import watching
    from turnout.cli.tables import show_sweep
    from turnout.experiment import config
    from turnout.experiment.run import start

    experiment = config.read(file)
    options = dict(_values(option) for option in [*(grid or []), *([f"seed={seeds}"] if seeds else [])])
    experiment = replace(experiment, sweep={**experiment.sweep, **options})
    if not experiment.sweep:
        raise UserError(f"{file} has no [sweep] table: add one, or give --set NAME=V1,V2,...")
    with watching() as watch:
        start(experiment, out, data, watch, command())
    show_sweep(out)


def _values(option: str) -> tuple[str, list[float]]:
    """Read "name=1,2.5" into a name and numbers."""
    name, equals, values = option.partition("=")
    try:
        if not equals:
            raise ValueError
        return name, [int(word) if word.strip().lstrip("-").isdigit() else float(word) for word in values.split(",")]
    except ValueError:
        raise UserError(f"--set {option}: write a name and numbers, such as algorithm.gamma=1,10") from None
