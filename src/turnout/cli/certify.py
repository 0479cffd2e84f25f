"""turnout certify: certificates and keys of a federation."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import needing_flower


@app.command()
def certify(
    folder: Annotated[Path, typer.Argument(help="A new folder; with --renew that of the federation.", metavar="DIR")],
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or address of the SuperLink's machine; may be repeated.", show_default=False),
    ] = None,
    clients: Annotated[
        str | None,
        typer.Option(
            help="Number of nodes to make keys for, 0 if sites make their own; or A-B, those of a hub.",
            metavar="N",
            show_default=False,
        ),
    ] = None,
    hubs: Annotated[
        int | None, typer.Option(help="Number of hubs to make keys for, in the place of nodes.", min=1, show_default=False)
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Write a new certificate of the server alone.")] = False,
) -> None:
    """Write the certificates, the node keys and the secret of a federation on several machines."""
    from turnout.core.errors import UserError
    from turnout.io.claims import claimed, holds_files

    with needing_flower():
        from turnout.engines.flower import keys

    if renew:
        if clients is not None or hubs is not None:
            raise UserError("--renew makes no keys of nodes: leave out --clients, and add clients with turnout register")
        keys.renew(folder, host or [])
        end = keys.read_certificate(folder / keys.CERTIFICATE).not_valid_after_utc
        typer.echo(f"{folder / keys.CERTIFICATE} is valid until {end:%Y-%m-%d}: start the SuperLink again with it")
        return
    if not host or (clients is None) == (hubs is None):
        raise UserError(f"a new folder needs machine and number: turnout certify {folder} --host NAME --clients N, or --hubs N")
    numbers = [*range(hubs)] if clients is None else numbers_of(clients)
    with claimed(folder):
        if holds_files(folder):
            raise UserError(
                f"{folder} is not empty, and keys are not overwritten: choose another folder, or renew it with --renew"
            )
        keys.write_all(folder, host, numbers, hubs is not None)
    typer.echo(f"for the SuperLink's machine: {folder}; the server needs it too, with the file secret")
    if numbers:
        who, key = ("client", "node") if hubs is None else ("hub", "hub")
        typer.echo(f"for the machine of {who} {numbers[0]}: {folder / 'ca.crt'} and {folder / f'{key}-{numbers[0]}'}, and so on")
    else:
        typer.echo(f"for each site: {folder / 'ca.crt'}; it makes its key with turnout node --request")


def numbers_of(clients: str) -> list[int]:
    """Return the clients that --clients names: the first N, or those of a hub, such as 5-9."""
    from turnout.cli.node import clients_in

    return [*range(int(clients))] if clients.isdecimal() else clients_in(clients)
