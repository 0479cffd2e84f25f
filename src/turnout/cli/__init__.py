"""The command line: `turnout COMMAND`, one file a command, in the order one meets them."""

import sys

import typer

from turnout.core.errors import UserError

app = typer.Typer(
    name="turnout",
    help="Federated optimization that counts what communication costs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _commands() -> None:
    """Federated optimization that counts what communication costs."""


def main() -> None:
    """Run the command line: a user's mistake ends it with one sentence and exit code 2, Ctrl-C with 130."""
    from turnout.cli import (  # noqa: F401  # noqa: F401
        certify,
        compare,
        data,
        deploy,
        describe,
        new_federation,
        node,
        reproduce,
        resume,
        run,
        serve,
        superlink,
        sweep,
        theory,
    )
    from turnout.cli.progress import Interrupted

    try:
        app()
    except UserError as error:
        print(f"turnout: {error}", file=sys.stderr)
        sys.exit(2)
    except (Interrupted, KeyboardInterrupt):
        print("turnout: stopped; `turnout resume DIR` goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)
