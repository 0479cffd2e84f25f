"""One client of a federation that plays a configuration."""

from collections.abc import Callable
from pathlib import Path

from turnout.core.errors import UserError
from turnout.engines.flower import keys
from turnout.engines.flower.client_app import client_app
from turnout.engines.flower.node_connection import serve
from turnout.engines.flower.state_store import DiskStates
from turnout.engines.node import Node
from turnout.experiment.config import Experiment, read
from turnout.experiment.run import Built
from turnout.federation.handshake import elsewhere, terms_of
from turnout.runs.setup import bind, prepare, scope


def node_of(experiment: Experiment, built: Built, client: int, folder: Path) -> Node:
    """Return one client of `experiment`, whose private states are kept in `folder`, in a folder of its own."""
    spec, terms = experiment.run, terms_of(experiment, built)
    if not 0 <= client < built.problem.clients:
        last = built.problem.clients - 1
        raise UserError(f"{experiment.name} has clients 0 to {last}, so that no node can be client {client}")
    with scope(spec.precision):
        mixed = spec.precision == "mixed"
        job = prepare(built.problem, spec.purpose_seeds(), None, None, start=spec.start, mixed=mixed)
        algorithm = bind(experiment.algorithm, built.problem, spec.rounds)
        node = Node(client, built.problem.client(client), algorithm, job.start, job.seeds, mixed=mixed)
        node.states = DiskStates(folder / f"{terms.mark}-{client}", node.first)
        if experiment.privacy is not None:
            node.protection = experiment.privacy.protection()
    return node


def app_of(file: Path, client: int, folder: Path, data: Path | None) -> Callable:
    """Return what answers for one client of the configuration `file`, whose private states are kept in `folder`."""
    experiment = read(file)
    built = elsewhere(experiment, data)
    node = node_of(experiment, built, client, folder)
    return client_app(terms_of(experiment, built), lambda _: node)


def serve_client(file: Path, client: int, address: str, authority: Path, key: Path, folder: Path, data: Path | None) -> None:
    """Be the node of one client for good; its private states are kept in `folder`."""
    serve(app_of(file, client, folder, data), address, authority, keys.read_node_key(key))
