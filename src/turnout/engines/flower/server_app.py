"""The ServerApp of a run that Flower starts itself."""

from collections.abc import Callable

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp


def server_app(run: Callable[[Grid, dict], None]) -> ServerApp:
    """Return the app that calls `run` with the grid and the configuration of Flower's run."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run(grid, dict(context.run_config))

    return app
