"""The command line: `turnout COMMAND`, one module for each command."""

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, cast

import typer
from typer.core import TyperGroup

from turnout.core.errors import UserError

COMMANDS = {
    "Experiments": ("run", "compare", "sweep", "study", "resume"),
    "Before a run": ("plan", "describe", "theory", "data"),
    "Papers": ("reproduce",),
    "Federations of real processes": ("new-federation", "deploy", "superlink", "node", "serve", "status", "audit"),
    "Members of federations": ("certify", "register", "revoke", "members", "sum-key"),
}
"""The commands by panel of `turnout -h`, each panel in the order in which its commands are used."""

ORDER = [name for names in COMMANDS.values() for name in names]


class Commands(TyperGroup):
    """The group of all commands, listed in the order of `COMMANDS`."""

    def list_commands(self, ctx) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    name="turnout",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> bool:
    """Show the version and end, if that is wanted."""
    if wanted:
        typer.echo(f"turnout {version('turnout')}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Federated optimization that counts what communication costs."""


def command_line() -> TyperGroup:
    """Return the group of all commands."""
    for name in ORDER:
        import_module(f"turnout.cli.{name.replace('-', '_')}")
    group = cast(TyperGroup, typer.main.get_command(app))
    for panel, names in COMMANDS.items():
        for name in names:
            vars(group.commands[name])["rich_help_panel"] = panel
    return group


def main() -> None:
    """Run the command line: a user's mistake ends it with one sentence and exit code 2, Ctrl-C with 130."""
    command = command_line()
    try:
        command(prog_name="turnout")
    except (UserError, KeyboardInterrupt) as error:
        sys.exit(tell(error))


def tell(error: UserError | KeyboardInterrupt) -> int:
    """Say why a command ends, and return its exit code."""
    if isinstance(error, UserError):
        print(f"turnout: {error}", file=sys.stderr)
        return 2
    print(f"turnout: stopped; {str(error) or '`turnout resume DIR` continues from the last checkpoint'}", file=sys.stderr)
    return 130
