"""turnout verify: test vectors, and what other packages make of them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json


@app.command()
def verify(
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="A package: flower, nvflare, decent-bench, fluke, pfl, fedlab or pfllib; may be repeated; all for each.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    environments: Annotated[
        Path | None,
        typer.Option(help="Folder for the packages' environments; default: the cache folder.", metavar="DIR", show_default=False),
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option(help="The Python of an environment that has the package already.", metavar="FILE", show_default=False),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(help="A folder of vectors in the place of turnout's own.", metavar="DIR", show_default=False),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that pip, and the vectors, may take each.", min=1)] = 900,
    out: Annotated[Path | None, typer.Option(help="Write the result as JSON.", metavar="FILE.json", show_default=False)] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Write Markdown tables.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hold the test vectors of algorithms against other packages, or list the vectors and what has none yet."""
    from turnout.core.errors import UserError
    from turnout.vectors.packages import PACKAGES, package
    from turnout.vectors.reading import collection

    found, refused = collection(vectors)
    for sentence in refused:
        typer.echo(f"turnout: {sentence}", err=True)
    if not against:
        listed(found, as_json)
        return
    names = [*PACKAGES] if against == ["all"] else against
    for name in names:
        package(name)
    if python is not None and len(names) > 1:
        raise UserError("--python is of one package: name one with --against")
    result = held(names, found, environments, python, timeout)
    if out is not None:
        from turnout.io.atomic import write

        write(out, json.dumps(result, indent=1) + "\n")
    if as_json:
        echo_json(result)
    else:
        show(result, found, as_markdown)


def held(names: list[str], vectors: dict, environments: Path | None, python: Path | None, timeout: float) -> dict:
    """Return what is said of packages, with the date and the version of turnout."""
    from datetime import UTC, datetime
    from importlib.metadata import version

    from turnout.core.cache import cache_folder
    from turnout.core.errors import UserError
    from turnout.vectors.verdicts import hold

    folder = environments or cache_folder()
    if folder is None:
        raise UserError("nothing is to be cached, so that environments of packages have no place: give one with --environments")
    folder = folder if environments else folder / "environments"
    packages = []
    for name in names:
        packages.append(hold(name, vectors, folder.absolute(), timeout, python))
        if packages[-1]["failed"]:
            typer.echo(f"turnout: {packages[-1]['title']}: {packages[-1]['failed']}", err=True)
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    return {"format": 1, "date": date, "turnout": version("turnout"), "vectors": len(vectors), "packages": packages}


def show(result: dict, vectors: dict, as_markdown: bool) -> None:
    """Print what is said of packages."""
    from rich.table import Table

    from turnout.cli.tables import console
    from turnout.vectors.table import lines, markdown

    if as_markdown:
        typer.echo(markdown(result, vectors), nl=False)
        return
    shown = Table("package", "algorithm", "found")
    for row in lines(result, vectors):
        shown.add_row(*row)
    console.print(shown)


def listed(vectors: dict, as_json: bool) -> None:
    """Print the vectors, and which algorithms of the registry have none."""
    from rich.table import Table

    from turnout.cli.tables import console
    from turnout.vectors.reading import families, missing

    if as_json:
        echo_json({"families": families(vectors), "missing": missing()})
        return
    shown = Table("algorithm", "vectors")
    for members in families(vectors).values():
        shown.add_row(vectors[members[0]]["algorithm"], ", ".join(members))
    console.print(shown)
    if missing():
        without = Table("no vector yet", "why")
        for kind, why in missing().items():
            without.add_row(kind, why)
        console.print(without)
