"""Options that several commands share, and the command line for the results."""

import os
import shlex
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from turnout.core.errors import UserError

Out = Annotated[Path, typer.Option("--out", help="Folder for the results; it must not hold another run.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data files; default: $TURNOUT_DATA.", show_default=False),
]
ResumableOut = Annotated[Path, typer.Option("--out", help="Folder for the results; the same command resumes an unfinished run.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Processes that play side by side.")]
Processes = Annotated[
    int,
    typer.Option("--processes", min=1, help="Processes that play the run together, each with the rows of its own clients."),
]
Executor = Annotated[
    Literal["slurm", "local"] | None,
    typer.Option("--executor", help="Play as jobs of a Slurm cluster or of this machine; --workers is how many run at a time."),
]
Job = Annotated[
    list[str] | None,
    typer.Option("--job", metavar="NAME=VALUE", help="A parameter of submitit, such as timeout_min=30 or slurm_partition=cpu."),
]
StudyOut = Annotated[
    Path, typer.Option("--out", help="Folder for runs and tables; runs that are there are not played again.", show_default=False)
]
Keys = Annotated[Path, typer.Argument(help="Folder of turnout certify.", metavar="DIR")]
Deadline = Annotated[float, typer.Option(help="Seconds that clients have for an exchange.", min=0.1)]
Patience = Annotated[float, typer.Option(help="Seconds to wait for a further client at the beginning.", min=0.1)]

LogFormat = Annotated[
    Literal["text", "json"],
    typer.Option("--log-format", envvar="TURNOUT_LOG_FORMAT", help="json: each line of the standard error is a JSON object."),
]


@contextmanager
def needing_flower(log_format: str | None = None) -> Iterator[None]:
    """Turn a failing import of Flower into a sentence on how to install it, and let its log have times.

    Args:
        log_format: "text" or "json", for the processes that this one starts too; None as $TURNOUT_LOG_FORMAT says.
    """
    from turnout.io.json_lines import VARIABLE

    if log_format not in (None, os.environ.get(VARIABLE, "text")):
        os.environ[VARIABLE] = log_format
    try:
        yield
        from turnout.engines.flower.console import dated_lines

        dated_lines()
    except ModuleNotFoundError as error:
        raise UserError(f"turnout {sys.argv[1]} needs Flower ({error}): pip install 'turnout[flower]'") from None


def job_parameters(options: list[str] | None) -> dict[str, Any]:
    """Read options NAME=VALUE of `--job`."""
    pairs = [option.partition("=") for option in options or []]
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise UserError(f"--job {name}{equals}{value}: write a name and a value, such as timeout_min=30")
    return {name.strip(): value_of(value.strip()) for name, _, value in pairs}


def value_of(word: str) -> Any:
    """Return a value of TOML; what is none is text."""
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


def resuming(out: Path, processes: int) -> str:
    """Return how to go on with a run in the folder `out` of so many processes."""
    words = ["turnout", "resume", str(out), *(["--processes", str(processes)] if processes > 1 else [])]
    return f"{shlex.join(words)} continues from the last checkpoint"


def command() -> str:
    """Return the command line of this process, which results record."""
    return shlex.join(["turnout", *sys.argv[1:]])
