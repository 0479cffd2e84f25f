"""turnout serve: the server of a federation on several machines."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Again, Data, Deadline, command, needing_flower


@app.command()
def serve(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML), the same as the nodes'.", metavar="FILE.toml")],
    superlink: Annotated[str, typer.Option(help="Where the SuperLink is.", metavar="HOST:PORT")],
    keys: Annotated[Path, typer.Option(help="Folder that turnout certify made.")],
    out: Again,
    deadline: Deadline = 60.0,
    patience: Annotated[float, typer.Option(help="Seconds to wait for all clients at the beginning.", min=0.1)] = 600.0,
    data: Data = None,
) -> None:
    """Play a configuration with nodes that run elsewhere."""
    from turnout.cli.deploy import finish
    from turnout.cli.progress import watching
    from turnout.experiment import config

    with needing_flower():
        from turnout.engines.flower.server_connection import joined
        from turnout.federation.local import server_at
        from turnout.federation.server import met, play

    with joined(server_at(superlink, keys)) as grid, watching() as watch:
        post, members = met(grid, config.read(file), data, deadline, patience)
        play(post, members, file, out, data, watch, command())
    finish(post, out)
