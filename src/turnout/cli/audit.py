"""turnout audit: what a node was asked and what it answered."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json


@app.command()
def audit(
    place: Annotated[Path, typer.Argument(help="A node's log, or a folder with logs of nodes.", metavar="FILE|DIR")],
    as_json: AsJson = False,
) -> None:
    """Check that the log of a node is as the node wrote it, and show it."""
    from turnout.cli.tables import show_log
    from turnout.core.errors import UserError
    from turnout.io.audit import read_entries

    files = sorted(place.rglob("audit-*.jsonl")) if place.is_dir() else [place]
    if not files:
        raise UserError(f"{place} holds no log audit-*.jsonl of a node: give the folder of its states, or the file of --log")
    logs = {file: read_entries(file) for file in files}
    if as_json:
        echo_json([{"file": str(file), "entries": entries} for file, entries in logs.items()])
        return
    for file, entries in logs.items():
        show_log(file, entries)
