"""`--json`: what a command found, as JSON on the standard output, in the place of tables."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON in the place of tables.")]


def echo_json(content: Any) -> None:
    """Print `content` as JSON; NaN and infinity, which JSON has not, are null."""
    from turnout.io.json_text import finite, plain

    typer.echo(json.dumps(finite(content), default=plain, ensure_ascii=False))


def echo_summary(folder: Path, name: str = "summary.json", **further: Any) -> None:
    """Print the file `name` of `folder`, with the folder and what else there is to say of it."""
    echo_json({"folder": str(folder), **json.loads((folder / name).read_text(encoding="utf-8")), **further})
