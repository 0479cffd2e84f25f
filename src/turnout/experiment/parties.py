"""The parties of a federation that plays a configuration: its nodes and its server."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from turnout.engines.compiled import survey
from turnout.engines.flower import keys
from turnout.engines.flower.desk import Terms, client_app
from turnout.engines.flower.engine import Flower, Member, Post, meet
from turnout.engines.flower.link import serve
from turnout.engines.flower.states import DiskStates
from turnout.engines.wired import Node, only_sums
from turnout.errors import UserError
from turnout.experiment.config import Experiment, read
from turnout.experiment.folder import CHECKPOINT, CONFIG, SUMMARY, Built, Watch, build, resume, start
from turnout.experiment.remote import RemoteSpec
from turnout.session import bind, prepare, refuse_mixed, scope

PATIENCE = 120.0
"""Seconds within which all nodes have to say hello."""


def terms_of(experiment: Experiment, built: Built) -> Terms:
    """Return what the server and the nodes of `experiment` have to agree on."""
    with scope(experiment.run.precision):
        given = experiment.run.start
        start = prepare(built.problem, experiment.run.seeds(), None, None, start=given).start
    exact = built.problem.remote or given is not None
    return Terms.of(experiment.to_toml(), experiment.run.precision, start, exact)


def elsewhere(experiment: Experiment, data: Path | None) -> Built:
    """Build `experiment` where the clients need not be: those with rows of their own are taken to have one each.

    What a federation cannot play is refused, before anybody is asked.
    """
    if experiment.sweep:
        raise UserError(f"{experiment.name} has a [sweep] table, whose runs share one program: play it with turnout sweep")
    remote = isinstance(experiment.problem, RemoteSpec)
    built = build(experiment, data, [1] * experiment.problem.clients if remote else None)
    refuse_mixed(built.problem, experiment.run.precision)
    if experiment.run.aggregation == "sum":
        with scope(experiment.run.precision):
            job = prepare(built.problem, experiment.run.seeds(), None, None)
            algorithm = bind(experiment.algorithm, built.problem, experiment.run.rounds)
            only_sums(survey(job, algorithm), algorithm)
    return built


def node_of(experiment: Experiment, built: Built, client: int, folder: Path) -> Node:
    """Return one client of `experiment`, whose private states are kept in `folder`, in a folder of its own."""
    spec, terms = experiment.run, terms_of(experiment, built)
    if not 0 <= client < built.problem.clients:
        last = built.problem.clients - 1
        raise UserError(f"{experiment.name} has clients 0 to {last}, so that no node can be client {client}")
    with scope(spec.precision):
        mixed = spec.precision == "mixed"
        job = prepare(built.problem, spec.seeds(), None, None, start=spec.start, mixed=mixed)
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


def met(
    grid, experiment: Experiment, data: Path | None, deadline: float, patience: float = PATIENCE
) -> tuple[Post, dict[int, Member]]:
    """Meet all clients of `experiment`, for at most `patience` seconds; an exchange may last `deadline` seconds."""
    post, built = Post(grid, deadline), elsewhere(experiment, data)
    return post, meet(post, terms_of(experiment, built), built.problem.clients, patience)


def play(post: Post, members: dict[int, Member], file: Path, out: Path, data: Path | None, watch: Watch, command: str) -> None:
    """Play the configuration `file` with `members` in the folder `out`, or go on with what it holds of that."""
    engine = partial(Flower, post, members, (out / CHECKPOINT).exists())
    sizes = [members[i].rows for i in range(len(members))]
    if (out / CONFIG).exists() and not (out / SUMMARY).exists():
        if read(out / CONFIG).to_toml() != read(file).to_toml():
            raise UserError(f"{out} holds an unfinished run of another configuration than {file}: choose another --out")
        resume(out, data, watch, command, engine, sizes)
    else:
        start(read(file), out, data, watch, command, engine, sizes)
