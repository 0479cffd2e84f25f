"""turnout reproduce: the study of a paper."""

from typing import Annotated

import typer
from typer.core import TyperCommand

from turnout.cli import app
from turnout.cli.as_json import AsJson
from turnout.cli.options import Data, Executor, Job, Workers
from turnout.cli.study import Folder, Methods, Problems, Seeds, conduct, show_papers

Paper = Annotated[str | None, typer.Argument(help="A name from `turnout study --list`.", metavar="[PAPER]")]
Scale = Annotated[str | None, typer.Option("--scale", metavar="NAME", help="Another scale, such as the paper’s.")]


class WithPapers(TyperCommand):
    """A command whose help ends with the papers' studies."""

    def format_help(self, ctx, formatter):
        from turnout.studies.papers import listing

        # Markup would join the lines.
        super().format_help(ctx, formatter)
        typer.echo(listing())


@app.command(cls=WithPapers)
def reproduce(
    paper: Paper = None,
    out: Folder = None,
    problems: Problems = None,
    methods: Methods = None,
    seeds: Seeds = None,
    workers: Workers = 1,
    executor: Executor = None,
    job: Job = None,
    scale: Scale = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce the figures and tables of a paper from real runs; without a name, list the papers."""
    if paper is None:
        show_papers(as_json)
        return
    from turnout.studies.papers import paper as source_of

    conduct(source_of(paper, scale), out, problems, methods, seeds, workers, data, executor, job, as_json=as_json)
