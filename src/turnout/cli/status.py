"""turnout status: what a server does."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import needing_flower

PAUSE = 1.0
"""Seconds between two looks at the file."""


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="The --out of turnout serve or turnout deploy.", metavar="DIR")],
    watch: Annotated[bool, typer.Option("--watch", help="Show it again whenever it changes, until the end of the run.")] = False,
) -> None:
    """Show the status of a run that a server serves: its clients, round, waits, refusals, bytes and privacy."""
    from turnout.cli.tables import on_terminal, show_status

    with needing_flower():
        from turnout.federation.status import read_status

    shown = read_status(folder)
    show_status(shown, again=False)
    try:
        while watch and shown.state not in ("finished", "stopped"):
            time.sleep(PAUSE)
            now = read_status(folder)
            if on_terminal() or now != replace(shown, written=now.written):
                show_status(now, again=True)
            shown = now
    except KeyboardInterrupt:
        raise typer.Exit from None
