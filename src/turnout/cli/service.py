"""turnout service: units of systemd that run the processes of a federation."""

import getpass
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from turnout.cli import app

WRITTEN = {"superlink": "keys", "serve": "out", "hub": "keys", "node": "states"}
"""The commands, and the folder that each writes to."""


@app.command(context_settings={"allow_interspersed_args": False})
def service(
    command: Annotated[
        list[str], typer.Argument(help="superlink, serve, hub or node, with its own options.", metavar="COMMAND [OPTIONS]...")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the unit; default: standard output.", metavar="DIR", show_default=False)
    ] = None,
    user: Annotated[str | None, typer.Option(help="User who runs it; default: you.", show_default=False)] = None,
) -> None:
    """Write the unit of systemd that runs a command of a federation, with the options that follow its name."""
    from turnout.core.errors import UserError
    from turnout.federation.service import unit
    from turnout.io.atomic import make_folder, write

    name, *arguments = command
    if name not in WRITTEN:
        raise UserError(f"turnout service {name}: a service runs one of {', '.join(WRITTEN)}")
    user = user or getpass.getuser()
    if user == "root":
        raise UserError("a federation needs no root: name the user who runs the service with --user NAME, before the command")
    words, values = absolute(name, arguments)
    which = next((values[option] for option in ("hub", "client", "clients") if values.get(option) is not None), None)
    label = name if which is None else f"{name}-{which}".replace(",", "_")
    writable = [values[WRITTEN[name]], *([values["log"].parent] if values.get("log") else [])]
    text = unit(f"turnout {label}", [program(), name, *words], user, writable)
    if out is None:
        typer.echo(text, nl=False)
        return
    path = make_folder(out) / f"turnout-{label}.service"
    write(path, text.encode())
    typer.echo(f"{path}: systemctl enable --now {path.absolute()}")


def absolute(name: str, arguments: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the arguments of a command as its own parser reads them, with absolute paths, and the values of all its options.

    Args:
        name: Name of the command.
        arguments: Its arguments.
    """
    import click

    from turnout.cli import command_line
    from turnout.core.errors import UserError

    command = command_line().commands[name]
    values = command.make_context(f"turnout {name}", arguments).params
    if values.get("data", "") is None:
        # Services do not have the environment of this command.
        values["data"] = os.environ.get("TURNOUT_DATA")
    words = []
    for parameter in command.params:
        value = values.get(parameter.name)
        if value is None or value == parameter.default:
            continue
        if isinstance(parameter.type, click.Path):
            value = values[parameter.name] = Path(value).absolute()
            if not (value.parent if parameter.name == "log" else value).exists():
                raise UserError(f"turnout service: {value} is not there: make it, or copy it there, before the unit is written")
        option = [] if parameter.param_type_name == "argument" else [parameter.opts[-1]]
        words += option if value is True else [*option, str(value)]
    return words, values


def program() -> str:
    """Return the absolute path of the program `turnout` of this Python."""
    from turnout.core.errors import UserError

    found = shutil.which("turnout", path=str(Path(sys.executable).parent)) or shutil.which("turnout")
    if found is None:
        raise UserError("the program turnout is not found: install turnout with pip, in the environment that runs the service")
    return str(Path(found).absolute())
