"""turnout study: methods on problems, in all settings and with several seeds, from one declaration."""

from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json, echo_summary
from turnout.cli.options import Data, Executor, Job, Workers, command, job_parameters
from turnout.cli.timing import Timing, asked_for, timed
from turnout.core.errors import UserError

Files = Annotated[
    list[Path] | None, typer.Argument(help="A study (TOML file or folder), or configurations.", metavar="FILE-or-DIR...")
]
Folder = Annotated[
    Path | None, typer.Option("--out", help="Folder for runs and tables; runs that are there are not played again.")
]
Problems = Annotated[str | None, typer.Option("--problems", metavar="A,B", help="Some of its problems.")]
Methods = Annotated[str | None, typer.Option("--methods", metavar="A,B", help="Some of its methods.")]
Seeds = Annotated[int | None, typer.Option("--seeds", min=1, help="The most reported seeds of each setting.")]
Limit = Annotated[
    str | None, typer.Option("--budget", metavar="PRICE=N", help="Start no further run when the runs have spent N of a price.")
]
Listed = Annotated[bool, typer.Option("--list", help="List the studies of the papers, which `turnout reproduce` plays.")]


@app.command()
def study(
    files: Files = None,
    out: Folder = None,
    problems: Problems = None,
    methods: Methods = None,
    seeds: Seeds = None,
    workers: Workers = 1,
    executor: Executor = None,
    job: Job = None,
    budget: Limit = None,
    data: Data = None,
    list_: Listed = False,
    timing: Timing = False,
    as_json: AsJson = False,
) -> None:
    """Compare methods on problems over settings and seeds; the same command goes on with an interrupted study."""
    if list_:
        show_papers(as_json)
        return
    if not files:
        raise UserError("a study needs something to play: give a TOML file or a folder, or see --list")
    timing = timing or any(map(asked_for, files))
    conduct(list(files), out, problems, methods, seeds, workers, data, executor, job, timing, as_json, budget)


def show_papers(as_json: bool) -> None:
    """Print the papers' studies."""
    from turnout.studies.papers import listing, papers

    if as_json:
        echo_json(papers())
    else:
        typer.echo(listing())


def conduct(
    what,
    out: Path | None,
    problems: str | None = None,
    methods: str | None = None,
    seeds: int | None = None,
    workers: int = 1,
    data: Path | None = None,
    executor: str | None = None,
    job: list[str] | None = None,
    timing: bool = False,
    as_json: bool = False,
    budget: str | None = None,
) -> None:
    """Play a study, and print its first table."""
    from turnout.cli.progress import studying
    from turnout.cli.tables import show_study
    from turnout.studies.api import study as play

    if out is None:
        raise UserError("there is no folder for the results: give --out DIR")
    parts = {"problems": problems and problems.split(","), "methods": methods and methods.split(",")}
    jobs = {"executor": executor, "job": job_parameters(job), "budget": _budget(budget)}
    with timed(timing, out / "summary.json", as_json), studying() as watch:
        played = play(what, out, **parts, **jobs, seeds=seeds, workers=workers, data=data, watch=watch, command=command())
    if as_json:
        costs = [{"goal": goal, "price": price, "rows": played.best(goal, price).to_dicts()} for goal, price in played.tables()]
        echo_summary(out, costs=costs)
    else:
        show_study(played, out)
    raise typer.Exit(1 if played.broken else 0)


def _budget(option: str | None) -> tuple[str, float] | None:
    """Return the name of a price and the number of `--budget`."""
    if option is None:
        return None
    name, _, number = option.partition("=")
    try:
        return name.strip(), float(number)
    except ValueError:
        raise UserError(f"--budget {option}: write the name of a price and a number, such as exchanges=1000") from None
