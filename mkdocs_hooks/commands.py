"""The page of commands, from the command line itself."""

import click

from turnout.cli import COMMANDS, command_line


def page() -> str:
    """Return the page in Markdown."""
    group = command_line()
    parts = ["# Commands", "`turnout -h` lists the commands, and `turnout COMMAND -h` explains one."]
    for title, names in COMMANDS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += described(f"turnout {name}", group.commands[name], 3)
    return "\n\n".join(parts) + "\n"


def described(words: str, command: click.Command, level: int) -> list[str]:
    """Return the parts of the page about a command and the commands below it."""
    context = click.Context(command, info_name=words)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"{'#' * level} {words}", (command.help or "").strip(), f"```sh\n{words} {usage}\n```"]
    rows = [row for parameter in command.params if (row := parameter.get_help_record(context)) is not None]
    if rows:
        lines = [f"| `{cell(name)}` | {cell(help_)} |" for name, help_ in rows]
        parts.append("\n".join(["| option | meaning |", "| --- | --- |", *lines]))
    for name, below in getattr(command, "commands", {}).items():
        parts += described(f"{words} {name}", below, level + 1)
    return parts


def cell(text: str) -> str:
    """Return text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
