"""Arguments that several commands share, and the line that repeats a command."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option("--out", help="Folder for the results; it must not hold another run.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data files; else $TURNOUT_DATA is searched.", show_default=False),
]


def command() -> str:
    """Return the command line that is being run, so that results can say how to repeat it."""
    return shlex.join(["turnout", *sys.argv[1:]])
