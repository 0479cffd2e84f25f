"""turnout figures: the pictures of results."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app


@app.command()
def figures(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, a study, a plan or of theory.", metavar="DIR")],
) -> None:
    """Draw the figures of results as SVG, PNG and PDF."""
    from turnout.report.pictures import draw
    from turnout.report.specs import specs_of

    paths = draw(folder, specs_of(folder))
    typer.echo(f"figures: {folder / 'figures'} ({len(paths)} files)")
