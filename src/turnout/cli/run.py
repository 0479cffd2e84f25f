"""turnout run: run one configuration."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson
from turnout.cli.options import Data, Out, Processes, command, resuming
from turnout.cli.timing import Timing, timed
from turnout.core.errors import UserError


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML).", metavar="FILE.toml")],
    out: Out,
    data: Data = None,
    processes: Processes = 1,
    timing: Timing = False,
    as_json: AsJson = False,
) -> None:
    """Run one configuration and write its results to a folder."""
    from turnout.cli.processes import ending_together, join
    from turnout.cli.progress import watching
    from turnout.cli.tables import show, warn
    from turnout.engines.processes import is_first
    from turnout.experiment import config
    from turnout.experiment.results import SUMMARY
    from turnout.experiment.run import refuse_results, start
    from turnout.samplers.base import warnings_of

    experiment = config.read(file)
    if experiment.sweep:
        raise UserError(f"{file} has a [sweep] table: run it with turnout sweep")
    refuse_results(out)
    join(processes, experiment.run.mesh)
    warned = []
    timer = timed(timing or experiment.run.timing, out / SUMMARY, as_json)
    with timer, ending_together(), watching(resuming(out, processes)) as watch:

        def warn_first(session):
            if not warned:
                warned.append(session)
                warn(warnings_of(session.engine.algorithm, session.engine.job.population))
            watch(session)

        start(experiment, out, data, warn_first, command())
    if is_first():
        show(out, as_json)
