"""Arguments that several commands share, and the line that repeats a command."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from turnout.core.errors import UserError

Out = Annotated[Path, typer.Option("--out", help="Folder for the results; it must not hold another run.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data files; else $TURNOUT_DATA is searched.", show_default=False),
]


Again = Annotated[Path, typer.Option("--out", help="Folder for the results; a second start goes on where it stopped.")]
Deadline = Annotated[float, typer.Option(help="Seconds that clients have for an exchange.", min=0.1)]


@contextmanager
def needing_flower() -> Iterator[None]:
    """Say how to get Flower where an import inside does not find it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(f"turnout {sys.argv[1]} needs Flower ({error}): pip install 'turnout[flower]'") from None


def command() -> str:
    """Return the command line that is being run, so that results can say how to repeat it."""
    return shlex.join(["turnout", *sys.argv[1:]])
