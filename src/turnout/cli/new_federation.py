"""turnout new-federation: begin a project whose clients are programs of one's own."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app


class Form(StrEnum):
    """What a client is written in."""

    torch = "torch"
    numpy = "numpy"
    jax = "jax"


@app.command("new-federation")
def new_federation(
    folder: Annotated[Path, typer.Argument(help="A new folder.", metavar="DIR")],
    form: Annotated[Form, typer.Option(help="What clients are written in.")] = Form.torch,
) -> None:
    """Write a small project: clients of your own, to train here, over the network, or by flwr run."""
    from turnout.federation.new_project import new_project

    for path in new_project(folder, form.value):
        typer.echo(path)
    typer.echo(f"{folder / 'README.md'} says what to edit; try it: cd {folder} && turnout run federation.toml --out results")
