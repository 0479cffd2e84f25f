"""turnout figures: pictures of the charts of a run, a study, a plan or a theory."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app


@app.command()
def figures(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, a study, a plan or a theory.", metavar="DIR")],
) -> None:
    """Draw the charts of finished results as SVG, PNG and PDF in DIR/figures."""
    from turnout.report.pictures import draw

    drawn = draw(folder)
    typer.echo(f"{len(drawn)} files in {folder / 'figures'}")
