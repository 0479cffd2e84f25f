"""turnout study: methods on problems, in all settings and with several seeds, from one declaration."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data, command

Files = Annotated[list[Path], typer.Argument(help="A study (TOML file or folder), or configurations.", metavar="FILE-or-DIR...")]
Folder = Annotated[Path, typer.Option("--out", help="Folder for runs and tables; runs that are there are not played again.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Processes that play side by side.")]


@app.command()
def study(
    files: Files,
    out: Folder,
    workers: Workers = 1,
    data: Data = None,
) -> None:
    """Compare methods on problems over settings and seeds; the same command goes on with an interrupted study."""
    from turnout.cli.progress import studying
    from turnout.cli.tables import show_study
    from turnout.studies.api import study as play

    with studying() as watch:
        played = play(list(files), out, workers=workers, data=data, watch=watch, command=command())
    show_study(played, out)
    raise typer.Exit(1 if played.broken else 0)
