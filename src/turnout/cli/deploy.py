"""turnout deploy: play one configuration with real nodes of Flower, on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Again, Data, Deadline, command, needing_flower


@app.command()
def deploy(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML).", metavar="FILE.toml")],
    out: Again,
    deadline: Deadline = 60.0,
    data: Data = None,
) -> None:
    """Play a configuration with a SuperLink and a node for each client, encrypted and with keys, on this machine."""
    from turnout.cli.progress import watching
    from turnout.experiment import config

    with needing_flower():
        from turnout.engines.flower.server_connection import joined
        from turnout.federation.local import federated
        from turnout.federation.server import met, play

    with federated(out / "federation", file, data) as server, joined(server) as grid, watching() as watch:
        post, members = met(grid, config.read(file), data, deadline)
        play(post, members, file, out, data, watch, command())
    finish(post, out)


def finish(post, out: Path) -> None:
    """Show what a run has cost, and which replies were refused."""
    from turnout.cli.tables import show
    from turnout.report.loaded_run import Result

    for what, many in post.counts.items():
        if many:
            typer.echo(f"{many} replies: {what}")
    show([Result.read(out)], out)
