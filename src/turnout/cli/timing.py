"""Where the seconds of a command went: a table, and an entry in its summary."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import BEGAN

STUDY = "study.toml"
"""The file with the tables that all settings of a study's folder share."""

Timing = Annotated[bool, typer.Option("--timing", help="Say where the seconds went, in the summary too.")]


def asked_for(path: Path) -> bool:
    """Return whether `[run] timing = true` is in a TOML file, or in that of a study's folder; mistakes are told later."""
    try:
        run = tomllib.loads((path / STUDY if path.is_dir() else path).read_text(encoding="utf-8")).get("run")
    except (OSError, ValueError):
        return False
    return isinstance(run, dict) and run.get("timing") is True


@contextmanager
def timed(wanted: bool, summary: Path, as_json: bool = False) -> Iterator[None]:
    """Time what is done inside, if that is wanted, and write the seconds of each part to the file `summary` as "timing".

    Args:
        wanted: Whether it is.
        summary: The file.
        as_json: Whether the output is JSON, so that the seconds are told in the file alone.
    """
    if not wanted:
        yield
        return
    from turnout.core.timing import begin
    from turnout.io.atomic import write

    watch = begin(BEGAN)
    yield
    facts = watch.facts()
    # Of several processes one has a summary.
    if summary.exists():
        content = json.loads(summary.read_text(encoding="utf-8"))
        write(summary, json.dumps({**content, "timing": facts}, indent=2, ensure_ascii=False) + "\n")
        if not as_json:
            typer.echo("seconds: " + ", ".join(f"{name} {taken:.2f}" for name, taken in facts.items()))
