"""One client of a federation that runs a configuration."""

from functools import partial
from pathlib import Path

from flwr.clientapp import ClientApp

from turnout.core.errors import UserError
from turnout.engines.budget import Budget
from turnout.engines.flower import keys
from turnout.engines.flower.client_app import NodeApp, Service
from turnout.engines.flower.node_connection import serve
from turnout.engines.flower.state_store import DiskReply, DiskStates
from turnout.engines.node import Node
from turnout.experiment.build import Built
from turnout.experiment.config import Experiment, read
from turnout.federation.handshake import build_for_federation, handshake_of
from turnout.federation.planned import planned_replies
from turnout.io.audit import AuditLog
from turnout.privacy.accounting import local_epsilon
from turnout.privacy.mechanism import Privacy, Protection
from turnout.runs.setup import bind, prepare, scope


def node_of(experiment: Experiment, built: Built, client: int, folder: Path) -> Node:
    """Return one client of `experiment`, with its private states in a subfolder of `folder`.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        client: Id of the client.
        folder: Folder of the private states.
    """
    spec, digest = experiment.run, handshake_of(experiment, built).digest
    if not 0 <= client < built.problem.clients:
        last = built.problem.clients - 1
        raise UserError(f"{experiment.name} has clients 0 to {last}, so that no node can be client {client}")
    with scope(spec.precision):
        mixed = spec.precision == "mixed"
        job = prepare(built.problem, spec.purpose_seeds(), None, None, start=spec.start, mixed=mixed)
        algorithm = bind(experiment.algorithm, built.problem, spec.rounds)
        privacy, own = experiment.privacy, folder / f"{digest}-{client}"
        protection = None if privacy is None else privacy.protection()
        node = Node(client, built.problem.client(client), algorithm, job.start, job.seeds, protection=protection, mixed=mixed)
        node.states = DiskStates(own, node.first)
    if node.local:
        limit = local_epsilon({privacy.noise_multiplier: planned_replies(experiment, built)}, privacy.delta)
        budget = Budget(folder / f"privacy-{client}.json", digest, limit, privacy.delta)
        node.last, node.protect, node.spent = DiskReply(own / "last"), partial(release, privacy, budget), budget.spent
    return node


def release(privacy: Privacy, budget: Budget) -> Protection:
    """Return the protection of one more reply of the local model, with new noise unless a seed is given, and charge for it.

    Args:
        privacy: Options of differential privacy.
        budget: What the client has spent.
    """
    budget.charge(privacy.noise_multiplier)
    return privacy.protection()


def service_of(experiment: Experiment, built: Built, client: int, folder: Path, log: Path | None = None) -> Service:
    """Return what the app of one client of `experiment` answers for.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        client: Id of the client.
        folder: Folder of the private states.
        log: File of the log; None for `audit-CLIENT.jsonl` in `folder`.
    """
    node = node_of(experiment, built, client, folder)
    return Service(handshake_of(experiment, built), node, AuditLog(log or folder / f"audit-{client}.jsonl"))


def app_of(file: Path, client: int, folder: Path, data: Path | None, log: Path | None = None) -> ClientApp:
    """Return the app of one client of the configuration `file`, with its private states in `folder`.

    Args:
        file: File of the configuration.
        client: Id of the client.
        folder: Folder of the private states.
        data: Folder with data files; None for the default folders.
        log: File of the log; None for one in `folder`.
    """
    experiment = read(file)
    service = service_of(experiment, build_for_federation(experiment, data), client, folder, log)
    return NodeApp(lambda _: service)


def serve_client(
    file: Path, client: int, address: str, authority: Path, key: Path, folder: Path, data: Path | None, log: Path | None = None
) -> None:
    """Serve one client until stopped, with its private states in `folder`.

    Args:
        file: File of the configuration.
        client: Id of the client.
        address: HOST:PORT of the SuperLink.
        authority: File of the authority's certificate.
        key: File of the node's private key.
        folder: Folder of the private states.
        data: Folder with data files; None for the default folders.
        log: File of the log; None for one in `folder`.
    """
    serve(app_of(file, client, folder, data, log), address, authority, keys.read_node_key(key))
