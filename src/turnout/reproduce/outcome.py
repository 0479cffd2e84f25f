"""What a reproduction tells at its end, and what it notes of how it was made."""

import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from turnout.core.errors import UserError
from turnout.experiment.summary import PACKAGES


@dataclass(frozen=True)
class Outcome:
    """Where the page is, and what there is to say at the end."""

    page: Path
    sentences: list[str]


def provenance(paper: str, command: str) -> dict:
    """Return the facts that every summary has."""
    versions = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    return {"paper": paper, "command": command, "turnout": version("turnout"), "versions": versions}


def untimed(paper: str, every_run: bool) -> None:
    """Raise `UserError` where every run is to be timed, which is not done for `paper`."""
    if every_run:
        raise UserError(f"{paper} is not timed run by run: leave --one-by-one out")


def told(runs: int, tasks: int, seconds: float, reused: int) -> str:
    """Say how long the compiled sweeps took."""
    kept = f" ({reused} of {tasks} sweeps were kept from before)" if reused else ""
    return f"compiled sweeps: {runs:,} runs in {seconds:,.1f} s{kept}"
