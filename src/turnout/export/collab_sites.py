"""The server and the sites of a job of NVFlare, whose objects are made anew in its processes from their arguments."""

# pyright: reportMissingImports=false
import tomllib
from functools import partial
from pathlib import Path

from nvflare.collab import collab

from turnout.core.errors import UserError
from turnout.engines.node import Node
from turnout.experiment.build import build
from turnout.experiment.client import client_of
from turnout.experiment.config import Reader
from turnout.experiment.experiment import Experiment
from turnout.experiment.remote_spec import RemoteSpec
from turnout.experiment.run import start
from turnout.export.collab_engine import Collab
from turnout.io.serialization import Buffer
from turnout.runs.setup import scope

FOLDER = "turnout"
"""The folder of the results, in that of the server's job."""


class Server:
    """Plays the rounds.

    Args:
        configuration: The configuration, in TOML.
        sites: The name of each client's site.
        deadline: Seconds that an exchange waits for replies.
    """

    def __init__(self, configuration: str, sites: list[str], deadline: float):
        self.configuration, self.sites, self.deadline = configuration, sites, deadline

    @collab.main
    def run(self):
        """Run the configuration, and write the results."""
        folder = Path(collab.workspace.get_run_dir(collab.fl_ctx.get_job_id())) / FOLDER
        sizes, failures = self.call("rows", dict.fromkeys(range(len(self.sites)), ()))
        if failures:
            raise UserError(f"sites did not begin: {failures}")
        experiment, engine = read(self.configuration), partial(Collab, self.call, self.sites)
        start(experiment, folder, None, lambda session: None, "nvflare", engine, [sizes[i] for i in sorted(sizes)])

    def call(self, method: str, requests: dict[int, tuple]) -> tuple[dict, dict[int, str]]:
        """Call a method of some sites side by side; return what it returned, and what went wrong, by client.

        Args:
            method: The name of the method.
            requests: The arguments for each client.
        """
        calls = {}
        for client, arguments in requests.items():
            site = collab.get_clients([self.sites[client]])(blocking=False, timeout=self.deadline)
            calls[client] = getattr(site, method)(*arguments)
        replies = {client: reply for client, results in calls.items() for _, reply in results}
        return replies, {i: str(error) for i, results in calls.items() for error in results.failures.values()}


class Site:
    """One client, which answers requests in bytes.

    Args:
        configuration: The configuration, in TOML.
        sites: The name of each client's site.
    """

    def __init__(self, configuration: str, sites: list[str]):
        self.configuration, self.sites = configuration, sites
        self.node: Node | None = None

    @collab.init
    def build(self):
        """Make the client whose name this site has."""
        if collab.site_name not in self.sites:
            raise UserError(f"{collab.site_name} is none of the sites {', '.join(self.sites)}: give nvflare their names")
        experiment = read(self.configuration)
        remote = isinstance(experiment.problem, RemoteSpec)
        built = build(experiment, None, [1] * len(self.sites) if remote else None)
        self.precision = experiment.run.precision
        self.node, _, _ = client_of(experiment, built, self.sites.index(collab.site_name))

    @collab.publish
    def rows(self) -> int:
        """Return the number of rows."""
        return self.node.runner.size

    @collab.publish
    def answer(self, header: bytes, body: bytes) -> Buffer:
        """Run a local method.

        Args:
            header: Says which, and from which private state.
            body: The message.
        """
        with scope(self.precision):
            return self.node.answer(header, body)

    @collab.publish
    def measure(self, header: bytes, body: bytes) -> Buffer:
        """Return functions of the client's rows.

        Args:
            header: Says which.
            body: The parameters.
        """
        with scope(self.precision):
            return self.node.measure(header, body)


def read(configuration: str) -> Experiment:
    """Return the experiment of a configuration in TOML."""
    return Reader("the job's configuration", configuration, tomllib.loads(configuration)).experiment("job")
