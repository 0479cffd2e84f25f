"""turnout schema: the JSON schema of configurations."""

from turnout.cli import app


@app.command()
def schema() -> None:
    """Print the JSON schema of configurations, with which editors complete and check them."""
    from turnout.cli.as_json import echo_json
    from turnout.experiment.schema import schema as made

    echo_json(made())
