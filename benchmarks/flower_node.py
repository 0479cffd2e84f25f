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
from turnout.engines.flower.node_connection import serve
from turnout.engines.node import Node
from turnout.federation.local import Federation
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
    """A federation of `clients` nodes on the problem `kind`."""

    def __init__(self, folder: Path, kind: str, clients: int):
        super().__init__(folder, folder / "none.toml", clients, None)
        self.kind = kind

    def start_node(self, client):
        where = self.server.address, self.server.authority, self.key(client)
        return self.run(f"node-{client}", "benchmarks.flower_node", self.kind, client, self.clients, *where)


@contextmanager
def federation(kind: str, clients: int) -> Iterator[Made]:
    """Run a federation inside, in a folder that is gone after it."""
    with TemporaryDirectory() as folder:
        made = Made(Path(folder) / "federation", kind, clients)
        try:
            made.start()
            yield made
        finally:
            made.stop()


def main() -> None:
    """Be a node that answers turnout's requests, Flower's own to train, and what has to come back as it is."""
    kind, client, clients, address, authority, key = sys.argv[1:]
    with scope("single"):
        problem, algorithm, job, terms = prepared(kind, int(clients))
        node = Node(int(client), problem.client(int(client)), algorithm, job.start, job.seeds)
        flower, ours = ClientApp(), NodeApp(lambda _: Service(terms, node))
        key_of_all = jax.random.key(0)

        @flower.train()
        def train(message, context):
            x = message.content["arrays"].to_numpy_ndarrays()[0]
            mine = node.algorithm, node.start, node.number, node.first
            moved = node.runner.run(*mine, key_of_all, x, "train").reply
            content = {"arrays": ArrayRecord([np.asarray(x + moved)]), "metrics": MetricRecord({"num-examples": 100})}
            return Message(RecordDict(content), reply_to=message)

        @flower.query("echo")
        def echo(message, context):
            return Message(RecordDict({"arrays": ArrayRecord(message.content["arrays"].to_numpy_ndarrays())}), reply_to=message)

        def app(message, context):
            return (flower if message.metadata.message_type in ("train", "query.echo") else ours)(message, context)

        serve(app, address, Path(authority), keys.read_node_key(Path(key)))


if __name__ == "__main__":
    main()
