"""The server's end for a run that Flower starts itself."""

from collections.abc import Callable

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp


def server_app(play: Callable[[Grid, dict], None]) -> ServerApp:
    """Return the app that calls `play` with the run's grid and configuration."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        play(grid, dict(context.run_config))

    return app
