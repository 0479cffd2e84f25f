"""turnout plan: which algorithm, sampler and numbers reach a target most cheaply."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json, echo_summary
from turnout.cli.options import Data, command
from turnout.cli.timing import Timing, asked_for, timed
from turnout.core.errors import UserError

File = Annotated[Path, typer.Argument(help="A problem, a target and prices.", metavar="FILE", show_default=False)]
Runs = Annotated[bool, typer.Option("--no-runs", help="Only tell what a round of each family costs; play nothing.")]
Folder = Annotated[
    Path | None, typer.Option("--out", help="Folder for the plan; runs that are there are not played again.", show_default=False)
]
Like = Annotated[Path | None, typer.Option("--like", help="A file with a problem that stands in for that of FILE.")]


@app.command()
def plan(
    file: File,
    out: Folder = None,
    like: Like = None,
    data: Data = None,
    no_runs: Runs = False,
    timing: Timing = False,
    as_json: AsJson = False,
) -> None:
    """Find what reaches a target most cheaply, and write its configuration; the same command goes on with it."""
    from turnout.cli.progress import planning
    from turnout.cli.tables import show_plan
    from turnout.core.timing import part
    from turnout.io.claims import claimed
    from turnout.planner.api import plan as make
    from turnout.planner.page import write_plan

    if no_runs:
        _before_runs(file, like, data, as_json)
        return
    if out is None:
        raise UserError("there is no folder for the plan: give --out DIR")
    with claimed(out), timed(timing or asked_for(file), out / "plan.json", as_json):
        with planning() as watch:
            made = make(file, out=out, like=like, data=data, watch=watch)
        with part("report"):
            write_plan(made, out, command())
    if as_json:
        echo_summary(out, "plan.json")
    else:
        show_plan(made, out)


def _before_runs(file: Path, like: Path | None, data: Path | None, as_json: bool) -> None:
    """Print what is known of the families without a run."""
    from turnout.cli.progress import planning
    from turnout.cli.tables import show_before_runs
    from turnout.planner.planner import Planner
    from turnout.planner.task import read_task
    from turnout.studies.cases import Cases

    task = read_task(file, like)
    with planning() as watch:
        ranking = Planner(task, None, Cases(data), watch).before_runs()
    if as_json:
        echo_json({"price": task.prices[0].label, "families": ranking.to_dicts()})
    else:
        show_before_runs(ranking, task.prices[0])
