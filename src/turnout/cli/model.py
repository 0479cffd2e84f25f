"""turnout model: the whole model of one client of a run with personal leaves."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app


@app.command()
def model(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.", metavar="DIR")],
    client: Annotated[int, typer.Option(min=0, help="Number of the client.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="File to write; default: DIR/model-CLIENT.safetensors.", show_default=False)
    ] = None,
) -> None:
    """Write the model that one client uses: the shared leaves of a run together with its personal ones."""
    from turnout.experiment.personal_models import write_model_of

    written = write_model_of(folder, client, out)
    typer.echo(f"the model of client {client} is in {written}")
