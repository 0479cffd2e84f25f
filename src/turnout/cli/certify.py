"""turnout certify: certificates and keys of a federation."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.options import needing_flower


@app.command()
def certify(
    folder: Annotated[Path, typer.Argument(help="A new folder.", metavar="DIR")],
    host: Annotated[list[str], typer.Option(help="A name or address of the SuperLink's machine; may be repeated.")],
    clients: Annotated[int, typer.Option(help="Number of nodes.", min=1)],
) -> None:
    """Write the certificates, the node keys and the secret of a federation on several machines."""
    from turnout.core.errors import UserError
    from turnout.io.atomic import make_folder

    with needing_flower():
        from turnout.engines.flower.keys import write_all

    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty, and keys are not overwritten: choose another folder")
    write_all(make_folder(folder), host, clients)
    typer.echo(f"for the SuperLink's machine: {folder}; the server needs it too, with the file secret")
    typer.echo(f"for the machine of client 0: {folder / 'ca.crt'} and {folder / 'node-0'}, and so on")
