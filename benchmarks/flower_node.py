"""Federations on made-up problems: `python -m benchmarks.flower_node` is one of their nodes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import turnout as t
from benchmarks.data import equal_clients, unequal_clients
from turnout.core.seeds import Seeds
from turnout.engines.flower import keys
from turnout.engines.flower.client_app import Handshake, NodeApp, Service
from turnout.engines.flower.hosting import serve
from turnout.engines.node import Node
from turnout.federation.local import Federation
from turnout.io.ports import free_port
from turnout.runs.setup import bind, prepare, scope

SEEDS = Seeds.of(0)


def made(kind: str, clients: int):
    """Return a problem and federated averaging on it: "W1" has 122 parameters; "wide:N" and "dense:N" have N."""
    if kind == "W1":
        return equal_clients(clients, 100, 122), t.FedAvg(t.Nice(clients), lr=0.1, steps=5)
    width = int(kind.partition(":")[2])
    if kind.startswith("dense"):
        return equal_clients(clients, 4, width), t.FedAvg(t.Nice(clients), lr=0.1, steps=1)
    return unequal_clients(np.full(clients, 4), width, entries=8), t.FedAvg(t.Nice(clients), lr=0.1, steps=1)


def prepared(kind: str, clients: int):
    """Return the problem, the algorithm, the job that both belong to, and the terms of the run."""
    problem, algorithm = made(kind, clients)
    job = prepare(problem, SEEDS, None, None)
    return problem, bind(algorithm, problem, 1), job, Handshake.of(f"{kind} {clients}", "single", job.start, exact=False)


class Made(Federation):
    """A federation of `clients` nodes on the problem `kind`, which reach the SuperLink at `reached`."""

    def __init__(self, folder: Path, kind: str, clients: int, processes: int | None = None):
        super().__init__(folder, folder / "none.toml", clients, None, processes)
        self.kind, self.reached = kind, self.server.address

    def start_node(self, client):
        return self.start_nodes(range(client, client + 1))

    def start_nodes(self, clients):
        where = self.reached, self.server.authority, self.folder
        which = clients[0], clients[-1] + 1
        return self.run(f"node-{clients[0]}", "benchmarks.flower_node", self.kind, *which, self.clients, *where)


@contextmanager
def federation(kind: str, clients: int, processes: int | None = None, delay: float = 0.0) -> Iterator[Made]:
    """Run a federation inside, in a folder that is gone after it; bytes to and from the SuperLink take `delay` seconds."""
    with TemporaryDirectory() as folder:
        made = Made(Path(folder) / "federation", kind, clients, processes)
        try:
            if delay:
                made.reached = f"127.0.0.1:{free_port()}"
                made.run("network", "benchmarks.delay", made.reached.partition(":")[2], made.server.address, delay)
            made.start()
            yield made
        finally:
            made.stop()


def main() -> None:
    """Be the nodes FIRST to END - 1."""
    kind, first, end, clients, address, authority, folder = sys.argv[1:]
    with scope("single"):
        problem, algorithm, job, terms = prepared(kind, int(clients))
        nodes = [Node(k, problem.client(k), algorithm, job.start, job.seeds) for k in range(int(first), int(end))]
        pairs = [(app_of(node, terms), keys.read_node_key(Path(folder) / f"node-{node.number}")) for node in nodes]
        serve(pairs, address, Path(authority))


def app_of(node: Node, terms: Handshake):
    """Return an app that answers turnout's requests, Flower's own to train, and what has to come back as it is."""
    flower, ours = ClientApp(), NodeApp(lambda _: Service(terms, node))
    key_of_all = jax.random.key(0)

    @flower.train()
    def train(message, context):
        x = message.content["arrays"].to_numpy_ndarrays()[0]
        mine = node.algorithm, node.start, node.number, node.first
        moved = node.runner.run(*mine, key_of_all, (x, None), "train").reply
        content = {"arrays": ArrayRecord([np.asarray(x + moved)]), "metrics": MetricRecord({"num-examples": 100})}
        return Message(RecordDict(content), reply_to=message)

    @flower.query("echo")
    def echo(message, context):
        return Message(RecordDict({"arrays": ArrayRecord(message.content["arrays"].to_numpy_ndarrays())}), reply_to=message)

    def app(message, context):
        # The scope of another thread does not count.
        with scope("single"):
            return (flower if message.metadata.message_type in ("train", "query.echo") else ours)(message, context)

    return app


if __name__ == "__main__":
    main()
