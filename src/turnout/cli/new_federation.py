"""turnout new-federation: write a project with clients of the user's own."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app


class Form(StrEnum):
    """The framework of the clients."""

    torch = "torch"
    numpy = "numpy"
    jax = "jax"


@app.command("new-federation")
def new_federation(
    folder: Annotated[Path, typer.Argument(help="A new folder.", metavar="DIR")],
    form: Annotated[Form, typer.Option(help="Framework of the clients.")] = Form.torch,
) -> None:
    """Write a small project with clients of your own, to run here, over the network, or with flwr run."""
    from turnout.federation.new_project import new_project

    for path in new_project(folder, form.value):
        typer.echo(path)
    typer.echo(f"{folder / 'README.md'} says what to edit; try it: cd {folder} && turnout run federation.toml --out results")
