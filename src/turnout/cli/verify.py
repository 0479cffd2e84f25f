"""turnout verify: published results that are played again, and test vectors with what other packages make of them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json
from turnout.cli.options import Data
from turnout.cli.study import Methods, Problems


@app.command()
def verify(
    results: Annotated[
        Path | None,
        typer.Argument(help="The folder of a study, or one of several: play rows of its tables again.", metavar="[RESULTS]"),
    ] = None,
    minutes: Annotated[float, typer.Option(help="The time for rows of RESULTS.", min=0.1)] = 10,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the choice of rows; default: another one each time.", min=0, show_default=False)
    ] = None,
    problems: Problems = None,
    methods: Methods = None,
    data: Data = None,
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
    """Play rows of published tables again; or hold the test vectors of algorithms against other packages, or list them."""
    from turnout.core.errors import UserError

    if results is not None:
        if against:
            raise UserError("--against is about packages, and a folder of results about studies: give one of the two")
        again(results, minutes, seed, data, (problems, methods), out, as_json)
        return
    if any(option is not None for option in (seed, problems, methods, data)):
        raise UserError("--seed, --problems, --methods and --data are about published results: give their folder too")
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
        save(out, result)
    if as_json:
        echo_json(result)
    else:
        show(result, found, as_markdown)


def again(
    results: Path,
    minutes: float,
    seed: int | None,
    data: Path | None,
    wanted: tuple[str | None, str | None],
    out: Path | None,
    as_json: bool,
) -> None:
    """Play rows of published tables again; exit code 1 where one differs, or none was played."""
    from secrets import randbelow

    from turnout.cli.published import failed, replayed, show_replayed

    found = replayed(results, minutes, randbelow(10**6) if seed is None else seed, data, wanted)
    if out is not None:
        save(out, found)
    if as_json:
        echo_json(found)
    else:
        show_replayed(found)
    raise typer.Exit(1 if failed(found) else 0)


def save(out: Path, result: dict) -> None:
    """Write a result as JSON."""
    from turnout.io.atomic import write
    from turnout.io.json_text import finite

    write(out, json.dumps(finite(result), indent=1, ensure_ascii=False) + "\n")


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
