"""turnout resume: continue an interrupted run."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson
from turnout.cli.options import Data, Processes, command
from turnout.cli.timing import Timing, timed


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of an interrupted run.", metavar="DIR")],
    data: Data = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Give a finished run more rounds, this many in all.", show_default=False)
    ] = None,
    processes: Processes = 1,
    timing: Timing = False,
    as_json: AsJson = False,
) -> None:
    """Continue an interrupted run from its last checkpoint, or a finished one with more rounds.

    The results are those of a run that was not interrupted, or had these rounds from the start.
    """
    from turnout.cli.processes import ending_together, join
    from turnout.cli.progress import SAME, watching
    from turnout.cli.tables import show
    from turnout.engines.processes import is_first
    from turnout.experiment.results import SUMMARY
    from turnout.experiment.run import configuration, extend
    from turnout.experiment.run import resume as resume_run

    options = configuration(folder).run
    join(processes, options.mesh)
    with timed(timing or options.timing, folder / SUMMARY, as_json), ending_together(), watching(SAME) as watch:
        if rounds is not None and (folder / SUMMARY).exists():
            extend(folder, rounds, data, watch, command())
        elif resume_run(folder, data, watch, command()) is None:
            typer.echo(f"{folder} is complete: there is nothing to resume; give it more rounds by --rounds N", err=as_json)
            if not as_json:
                return
    if is_first():
        show(folder, as_json)
