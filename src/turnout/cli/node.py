"""turnout node: clients of a federation."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import Data, LogFormat, needing_flower


def _write_request(path: Path | None) -> None:
    """Write a key and a request, and end, in the place of a node."""
    if path is None:
        return
    with needing_flower():
        from turnout.engines.flower.key_request import write_request
    typer.echo(f"{write_request(path)} is the private key of this site, and stays here")
    typer.echo(f"{path} is for the operator of the federation: turnout register DIR {path}")
    raise typer.Exit


@app.command()
def node(
    file: Annotated[
        Path, typer.Argument(help="Configuration (TOML): the server's, unless there is a policy.", metavar="FILE.toml")
    ],
    superlink: Annotated[str, typer.Option(help="Address of the SuperLink.", metavar="HOST:PORT")],
    authority: Annotated[Path, typer.Option(help="Certificate of the authority that signed the SuperLink's.")],
    key: Annotated[Path, typer.Option(help="The node's private key; with --clients a folder that has node-K for client K.")],
    states: Annotated[
        Path, typer.Option(help="Folder for the client's private states; with --clients it has states-K for client K.")
    ],
    client: Annotated[int | None, typer.Option(help="The client's number, from 0.", min=0, show_default=False)] = None,
    clients: Annotated[
        str | None,
        typer.Option(help="Several clients in one process, each with its key; or A,B,C.", metavar="A-B", show_default=False),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Log for turnout audit; default: in the folder of states.", show_default=False)
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="What this site allows; the server's configuration may be any within it.", show_default=False),
    ] = None,
    sum_key: Annotated[
        Path | None, typer.Option(help="The members' key for aggregation = 'encrypted' (turnout sum-key).", show_default=False)
    ] = None,
    request: Annotated[
        Path | None,
        typer.Option(
            callback=_write_request,
            is_eager=True,
            help="Write a private key and a request to register it, and nothing else.",
            show_default=False,
            metavar="SITE.csr",
        ),
    ] = None,
    data: Data = None,
    log_format: LogFormat = "text",
) -> None:
    """Run one client of a federation, or several, until stopped."""
    from turnout.core.errors import UserError

    with needing_flower(log_format):
        from turnout.engines.flower.hosting import serve
        from turnout.engines.flower.keys import read_node_key
        from turnout.federation.site import apps_of

    if (client is None) == (clients is None):
        raise UserError("a node needs --client K, or --clients A-B for several in one process")
    if client is not None:
        folders, keys = {client: states}, [key]
    elif log is not None:
        raise UserError(
            "--log is the log of one client: leave it out with --clients, and each has its own in its folder of states"
        )
    else:
        numbers = clients_in(clients)
        folders, keys = {k: states / f"states-{k}" for k in numbers}, [key / f"node-{k}" for k in numbers]
    apps = apps_of(file, folders, data, log, policy, sum_key)
    serve([*zip(apps, map(read_node_key, keys), strict=True)], superlink, authority)


def clients_in(text: str) -> list[int]:
    """Return the clients that "A-B" names, A to B, or "A,B" or "A-B,C"."""
    from turnout.core.errors import UserError

    numbers = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise UserError(f"--clients names the first and the last client, such as 0-39, or each, but it is {text!r}")
        numbers += range(int(first), int(last) + 1)
    return numbers
