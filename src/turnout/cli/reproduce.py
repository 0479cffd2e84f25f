"""turnout reproduce: the figures and tables of a paper, from real runs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnout.cli import app
from turnout.cli.options import Data, command

Figures = Annotated[list[str] | None, typer.Option("--figure", metavar="NAME", help="A figure such as 2a; may be repeated.")]
Folder = Annotated[Path | None, typer.Option("--out", help="Folder for the results; the same command resumes.")]
Scale = Annotated[Literal["small", "paper"] | None, typer.Option("--scale", help="Sizes for two cores, or the paper’s.")]
Sets = Annotated[str | None, typer.Option("--sets", metavar="A,B", help="Other data sets, or some of feddcd’s.")]


@app.command()
def reproduce(
    paper: Annotated[str | None, typer.Argument(help="A name from `turnout reproduce`.", metavar="[PAPER]")] = None,
    out: Folder = None,
    figure: Figures = None,
    sets: Sets = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Fewest seeds of each setting.")] = 5,
    one_by_one: Annotated[bool, typer.Option("--one-by-one", help="Time all runs one by one, not a sample of them.")] = False,
    scale: Scale = None,
    data: Data = None,
) -> None:
    """Reproduce the figures and tables of a paper from real runs; without a name, list the papers."""
    from turnout.core.errors import UserError
    from turnout.reproduce.papers import figure_files, kind_of, papers

    if paper is None:
        for name, title in papers().items():
            typer.echo(f"{name}: {title}; figures {', '.join(path.stem for path in figure_files(name))}")
        return
    if out is None:
        raise UserError("no folder for the results is given: give --out DIR")
    from turnout.cli.progress import Interrupted

    began, kind = time.perf_counter(), kind_of(paper)
    if scale is not None and not hasattr(kind, "SCALES"):
        raise UserError(f"{paper} has only the paper's own scale: leave --scale out")
    read = kind.read_paper(paper) if scale is None else kind.read_paper(paper, scale)
    plan = kind.plan_of(read, figure or [], sets.split(",") if sets else None, seeds, data)
    try:
        with watching() as watch:
            done = kind.reproduce(plan, out, watch, command(), one_by_one)
    except (Interrupted, KeyboardInterrupt):
        typer.echo("turnout: stopped; the same command continues", err=True)
        raise typer.Exit(130) from None
    typer.echo("\n".join([*done.sentences, f"everything took {time.perf_counter() - began:,.0f} s", f"report: {done.page}"]))


@contextmanager
def watching() -> Iterator:
    """Yield a function that shows the progress of the sweeps, and raises `Interrupted` after Ctrl-C."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from turnout.cli.progress import console, deferred_interrupt

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("sweeps"), TimeElapsedColumn()
    shown = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
    with deferred_interrupt() as check, shown as progress:
        task = progress.add_task("", total=None)

        def watch(label: str, done: int, of: int) -> None:
            check()
            progress.update(task, description=label, completed=done, total=of)

        yield watch
