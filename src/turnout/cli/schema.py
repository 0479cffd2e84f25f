"""turnout schema: the JSON schema of configurations, and of what runs and studies leave."""

from typing import Annotated, Literal

import typer

from turnout.cli import app

Of = Annotated[
    Literal["configuration", "run", "study"],
    typer.Option("--of", help="run, study: the schema of their summary.json, and of what --json prints."),
]


@app.command()
def schema(of: Of = "configuration") -> None:
    """Print the JSON schema of configurations, with which editors complete and check them, or of results."""
    from turnout.cli.as_json import echo_json
    from turnout.experiment.result_types import RunSummary
    from turnout.experiment.schema import schema as made
    from turnout.experiment.schema import schema_of
    from turnout.studies.result_types import StudySummary

    echo_json(made() if of == "configuration" else schema_of(RunSummary if of == "run" else StudySummary))
