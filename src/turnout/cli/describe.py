"""turnout describe: cost estimates of configurations."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json
from turnout.cli.options import Data


@app.command()
def describe(
    files: Annotated[list[Path], typer.Argument(help="Configurations (TOML).", metavar="FILE.toml...")],
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Write Markdown tables.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Estimate what configurations will send, to whom, how often and at what cost, without running them."""
    from turnout.cli.tables import warn
    from turnout.experiment import config
    from turnout.experiment.build import build
    from turnout.experiment.describe import describe as estimate
    from turnout.experiment.describe import warnings
    from turnout.report.plan import calls, facts, links, markdown, side_by_side

    experiments = [config.read(file) for file in files]
    problems = [build(experiment, data).problem for experiment in experiments]
    plans = [*map(estimate, experiments, problems)]
    for found in map(warnings, experiments, problems):
        warn(found)
    if as_json:
        echo_json([facts(plan) for plan in plans])
        return
    for grid in [*(grid for plan in plans for grid in (calls(plan), *links(plan))), side_by_side(plans)]:
        if as_markdown:
            typer.echo(markdown(grid))
        else:
            show(grid)


def show(grid) -> None:
    """Print a `Grid`; in a narrow terminal the widths of its columns follow their longest words, or they become its rows."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from turnout.cli.tables import console

    if sum(longest + 1 for longest in grid.longest_words()) > console.width and len(grid.headings) > len(grid.rows) + 1:
        grid = grid.turned()
    shown = Table(title=escape(grid.title), title_justify="left")
    for k, (heading, longest) in enumerate(zip(grid.headings, grid.longest_words(), strict=True)):
        shown.add_column(escape(heading), justify="right" if k else "left", overflow="fold", ratio=longest)
    for row in grid.rows:
        shown.add_row(*map(escape, row))
    if console.measure(shown, options=console.options.update_width(sys.maxsize)).maximum > console.width:
        shown.box, shown.show_edge, shown.padding, shown.expand = SIMPLE_HEAD, False, 0, True
    console.print(shown, new_line_start=True)
