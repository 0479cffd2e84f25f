"""The command line: `turnout COMMAND`, one module for each command."""

import atexit
import gc
import os
import sys
import time
import warnings
from functools import partial
from importlib import import_module
from typing import Annotated, cast

import typer
from typer.core import TyperGroup

from turnout.core.errors import Caution, UserError

BEGAN = time.perf_counter()
"""When the command began."""

COMMANDS = {
    "Experiments": ("run", "compare", "sweep", "study", "resume", "figures", "model"),
    "Before a run": ("plan", "describe", "theory", "data", "schema"),
    "Papers": ("reproduce", "verify"),
    "Federations of real processes": (
        "new-federation",
        "deploy",
        "superlink",
        "node",
        "hub",
        "serve",
        "status",
        "audit",
        "service",
    ),
    "Members of federations": ("certify", "register", "revoke", "members", "sum-key"),
}
"""The commands by panel of `turnout -h`, each panel in the order in which its commands are used."""

ORDER = [name for names in COMMANDS.values() for name in names]


class Stopped(Exception):
    """Ctrl-C has ended a command; the message says how to go on, if there is a way."""


class Commands(TyperGroup):
    """The group of all commands in the order of `COMMANDS`, whose modules are imported when they are called, or listed."""

    def list_commands(self, ctx) -> list[str]:
        self.load(ORDER)
        return ORDER

    def invoke(self, ctx):
        # Typer would end without a word.
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Stopped(str(error)) from None

    def get_command(self, ctx, cmd_name: str):
        # A name that is none is compared with all that are.
        self.load([cmd_name] if cmd_name in ORDER else ORDER)
        return super().get_command(ctx, cmd_name)

    def load(self, names: list[str]) -> None:
        """Import the modules of the commands `names`."""
        missing = [name for name in names if name not in self.commands]
        for name in missing:
            import_module(f"turnout.cli.{name.replace('-', '_')}")
        if missing:
            self.commands.update(typer.main.get_group(app).commands)
        for panel, members in COMMANDS.items():
            for name in {*members} & {*self.commands}:
                vars(self.commands[name])["rich_help_panel"] = panel


app = typer.Typer(
    name="turnout",
    cls=Commands,
    no_args_is_help=True,
    suggest_commands=False,  # Click suggests them itself.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> bool:
    """Show the version and end, if that is wanted."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"turnout {version('turnout')}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Federated optimization that counts what communication costs."""


def command_line() -> Commands:
    """Return the group of all commands, each imported."""
    group = cast(Commands, typer.main.get_command(app))
    group.load(ORDER)
    return group


def main() -> None:
    """Run the command line: a user's mistake ends it with one sentence and exit code 2, Ctrl-C with 130."""
    # Imports and traces make many objects that stay, which collections of garbage would look through again and again.
    gc.set_threshold(100_000, 20, 20)
    # At the end of the process Python would look through them once more.
    atexit.register(gc.freeze)
    warnings.showwarning = partial(shown, set())
    try:
        typer.main.get_command(app)(prog_name="turnout")
    except (UserError, Stopped) as error:
        sys.exit(tell(error))
    except OSError as error:
        from turnout.io.atomic import FULL

        if error.errno not in FULL:
            raise
        # Python would try once more to write what is left of the output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        what = error.filename or "the output"
        sys.exit(tell(UserError(f"{what}: cannot be written ({error.strerror}): free some space")))


def shown(told: set[str], message, category, filename, lineno, file=None, line=None) -> None:
    """Print a warning as Python does, and a `Caution` as one sentence, unless it was `told` already."""
    if issubclass(category, Caution):
        if str(message) in told:
            return
        told.add(str(message))
    text = (
        f"turnout: warning: {message}\n"
        if issubclass(category, Caution)
        else warnings.formatwarning(message, category, filename, lineno)
    )
    print(text, end="", file=file or sys.stderr)


def tell(error: UserError | Stopped | KeyboardInterrupt) -> int:
    """Say why a command ends, and return its exit code."""
    if isinstance(error, UserError):
        say("error", str(error))
        return 2
    say("info", f"stopped; {error}" if str(error) else "stopped")
    return 130


def say(level: str, sentence: str) -> None:
    """Write a sentence to the standard error, or to the log where that is JSON, with its level: "info" or "error"."""
    import logging

    from turnout.io.json_lines import begun

    if begun():
        getattr(logging.getLogger("turnout"), level)("%s", sentence)
    else:
        print(f"turnout: {sentence}", file=sys.stderr)
