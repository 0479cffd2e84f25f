"""turnout status: what a server does."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json
from turnout.cli.options import needing_flower

PAUSE = 1.0
"""Seconds between two looks at the file."""


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="The --out of turnout serve or turnout deploy.", metavar="DIR")],
    watch: Annotated[bool, typer.Option("--watch", help="Show it again whenever it changes, until the end of the run.")] = False,
    serve: Annotated[
        str | None,
        typer.Option(
            help="Show it as a web page, as /status.json, and as /metrics for Prometheus.",
            metavar="HOST:PORT",
            show_default=False,
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            help="Folder of turnout certify: the page needs TLS and its status-token.", metavar="DIR", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the status of a run that a server serves: its clients, round, waits, refusals, bytes and privacy."""
    from turnout.cli.tables import on_terminal

    with needing_flower():
        from turnout.federation.status import read_status

    if serve is not None:
        serve_status(folder, serve, keys)
        return
    shown = read_status(folder)
    tell(shown, as_json, again=False)
    try:
        while watch and shown.state not in ("finished", "stopped"):
            time.sleep(PAUSE)
            now = read_status(folder)
            if on_terminal() or now != replace(shown, written=now.written):
                tell(now, as_json, again=True)
            shown = now
    except KeyboardInterrupt:
        raise typer.Exit from None


def tell(status, as_json: bool, again: bool) -> None:
    """Print a status, as JSON in one line each time."""
    from turnout.cli.tables import show_status
    from turnout.federation.status import STATUS

    if as_json:
        echo_json(STATUS.dump_python(status, mode="json"))
    else:
        show_status(status, again)


def serve_status(folder: Path, address: str, keys: Path | None) -> None:
    """Serve the status of the run in `folder` to browsers and to Prometheus, until stopped."""
    from turnout.engines.flower.keys import STATUS_TOKEN
    from turnout.federation.status_server import status_server

    server, listening = status_server(folder, address, keys)
    host, port = listening.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    typer.echo(f"http://{host}:{port}/" if keys is None else f"https://{host}:{port}/ with the password in {keys / STATUS_TOKEN}")
    server.run([listening])
