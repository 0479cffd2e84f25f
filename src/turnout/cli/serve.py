"""turnout serve: the server of a federation on several machines."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson
from turnout.cli.options import Data, Deadline, LogFormat, Patience, ResumableOut, command, needing_flower


@app.command()
def serve(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML), the same as the nodes'.", metavar="FILE.toml")],
    superlink: Annotated[str, typer.Option(help="Address of the SuperLink.", metavar="HOST:PORT")],
    keys: Annotated[Path, typer.Option(help="Folder of turnout certify.")],
    out: ResumableOut,
    deadline: Deadline = 60.0,
    patience: Patience = 600.0,
    data: Data = None,
    log_format: LogFormat = "text",
    as_json: AsJson = False,
) -> None:
    """Run a configuration with nodes on other machines."""
    from turnout.cli.deploy import show_result
    from turnout.cli.progress import SAME, watching
    from turnout.experiment import config
    from turnout.io.claims import claimed

    with needing_flower(log_format):
        from turnout.engines.flower.server_connection import flower_run
        from turnout.federation.local import superlink_at
        from turnout.federation.server import connect_clients, start_or_resume
        from turnout.federation.status import StatusFile

    experiment, server = config.read(file), superlink_at(superlink, keys)
    with claimed(out), StatusFile(out, experiment) as status, flower_run(server) as grid, watching(SAME) as watch:
        mailbox, nodes = connect_clients(grid, experiment, data, deadline, patience, keys, status.waits)
        start_or_resume(mailbox, nodes, file, out, data, status.after(watch, nodes), command())
    show_result(mailbox.counts, out, as_json)
