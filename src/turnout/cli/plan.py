"""turnout plan: which algorithm, sampler and numbers reach a target most cheaply."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data, command

File = Annotated[Path, typer.Argument(help="A problem, a target and prices.", metavar="FILE", show_default=False)]
Folder = Annotated[
    Path, typer.Option("--out", help="Folder for the plan; runs that are there are not played again.", show_default=False)
]
Like = Annotated[Path | None, typer.Option("--like", help="A file with a problem that stands in for that of FILE.")]


@app.command()
def plan(file: File, out: Folder, like: Like = None, data: Data = None) -> None:
    """Find what reaches a target most cheaply, and write its configuration; the same command goes on with it."""
    from turnout.cli.progress import planning
    from turnout.cli.tables import show_plan
    from turnout.planner.api import plan as make
    from turnout.planner.page import write_plan

    with planning() as watch:
        made = make(file, out=out, like=like, data=data, watch=watch)
    write_plan(made, out, command())
    show_plan(made, out)
