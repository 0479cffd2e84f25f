"""turnout deploy: run one configuration with real Flower nodes on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson
from turnout.cli.options import Data, Deadline, Patience, ResumableOut, command, needing_flower
from turnout.cli.timing import Timing, timed


@app.command()
def deploy(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML).", metavar="FILE.toml")],
    out: ResumableOut,
    # The nodes of all clients share the processors of this machine, with whatever else it does.
    deadline: Deadline = 300.0,
    patience: Patience = 120.0,
    data: Data = None,
    timing: Timing = False,
    as_json: AsJson = False,
) -> None:
    """Run a configuration with a SuperLink and a node for each client on this machine, with TLS and node keys."""
    from turnout.cli.progress import SAME, watching
    from turnout.experiment import config
    from turnout.experiment.results import SUMMARY
    from turnout.io.claims import claimed

    with needing_flower():
        from turnout.engines.flower.server_connection import flower_run
        from turnout.federation.deployed import local_federation
        from turnout.federation.server import connect_clients, start_or_resume
        from turnout.federation.status import StatusFile

    experiment, keys = config.read(file), out / "federation"
    with (
        claimed(out),
        timed(timing or experiment.run.timing, out / SUMMARY, as_json),
        StatusFile(out, experiment) as status,
        local_federation(keys, file, data) as server,
    ):
        with flower_run(server) as grid, watching(SAME) as watch:
            mailbox, nodes = connect_clients(grid, experiment, data, deadline, patience, keys, watch=status.waits)
            start_or_resume(mailbox, nodes, file, out, data, status.after(watch, nodes), command())
    show_result(mailbox.counts, out, as_json)


def show_result(unusable: dict[str, int], out: Path, as_json: bool) -> None:
    """Print the numbers of unusable replies by reason, and the cost of the run."""
    from turnout.cli.tables import show

    for reason, count in unusable.items():
        if count:
            typer.echo(f"{count} replies: {reason}", err=as_json)
    show(out, as_json)
