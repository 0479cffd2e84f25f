"""The messages of a federation without its network: the server's mailbox and the nodes' apps in one process."""

from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid

from turnout.engines.coded_algorithm import coded
from turnout.engines.encryption import SumKey, new_key
from turnout.engines.flower.client_app import NodeApp, Service
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import Members, handshake
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.payload import pack, pack_body, unpack
from turnout.engines.node import Node
from turnout.experiment.build import build, session_of
from turnout.federation.handshake import handshake_of
from turnout.runs.hub_layout import with_hubs
from turnout.runs.session import Session
from turnout.runs.setup import bind, prepare, scope


class Grid(HttpGrid):
    """A grid without a SuperLink, which tells of the nodes in this process."""

    def __init__(self, place: "InProcess"):
        self.place = place

    def get_nodes(self):
        return self.place.connected()

    def get_node_ids(self):
        return [*self.place.apps]

    def close(self):
        """Nothing is connected."""


class InProcess(Mailbox):
    """A mailbox whose nodes are in this process; node 10 + i is that of client i.

    Args:
        experiment: The configuration.
        misdeeds: For some clients a function of the kind and the number of a request and of the honest reply in bytes, which
            returns the bytes that the node sends, or None if it sends nothing.
        registry: The clients by key; that of client i is b"key i", or in `keys`.
        sizes: Numbers of rows of remote clients.
        quorum: How many clients must be there, or which share.
        keys: Other public keys of clients.
        secret: The members' key for encrypted sums; None for a new one.
    """

    def __init__(self, experiment, misdeeds: dict | None = None, registry=None, sizes=None, quorum=None, keys=None, secret=None):
        super().__init__(Grid(self), 60.0)
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        built = build(experiment, None, sizes)
        self.built = replace(built, problem=with_hubs(built.problem, experiment.hubs))
        self.experiment, self.registry = experiment, registry
        self.quorum, self.keys = quorum, keys or {}
        self.misdeeds, self.numbers, self.asked = misdeeds or {}, Counter(), []
        self.expected = handshake_of(experiment, self.built)
        self.secret = (secret or new_key()) if experiment.run.aggregation == "encrypted" else None
        self.sum_key = None if self.secret is None else SumKey(self.secret, self.built.problem.clients)
        self.members = [self._node(i) for i in range(self.built.problem.clients)]
        self.apps = {10 + i: NodeApp(lambda _, node=node: Service(self.expected, node)) for i, node in enumerate(self.members)}

    def _node(self, client: int) -> Node:
        run, problem, privacy = self.experiment.run, self.built.problem, self.experiment.privacy
        protection = None if privacy is None else privacy.protection()
        with scope(run.precision):
            job = prepare(problem, run.purpose_seeds(), None, None)
            algorithm = coded(job, bind(self.experiment.algorithm, problem, run.rounds), self.experiment.exchange)
            return Node(client, problem.client(client), algorithm, job.start, job.seeds, protection, sum_key=self.sum_key)

    def connected(self) -> list:
        """Return what the SuperLink tells of the nodes."""
        return [SimpleNamespace(node_id=n, public_key=self.keys.get(n - 10, b"key %d" % (n - 10))) for n in self.apps]

    def _replies(self, requests, kind, limit):
        name = kind.partition("_")[0]
        self.asked.append((name, [node - 10 for node in requests]))
        for node, (header, body) in requests.items():
            request = Message(pack(pack_body(bytes(body)), header), node, f"query.{kind}")
            request.metadata.__dict__["_message_id"] = "request"
            reply = self.apps[node](request, Context(0, node, {}, RecordDict(), {}))
            if node - 10 in self.misdeeds and not reply.has_error():
                self.numbers[node, name] += 1
                sent = self.misdeeds[node - 10](name, self.numbers[node, name], unpack(reply.content)[1][:])
                reply = None if sent is None else Message(pack(pack_body(sent)), reply_to=request)
            self.counts["late or missing"] += reply is None
            if reply is not None:
                yield node, reply

    def greeted(self, timeout: float = 0.0, watch=None) -> Members:
        """Return the clients with their nodes."""
        skips = self.experiment.faults is not None and self.experiment.faults.missing == "skip"
        return handshake(self, self.expected, len(self.members), timeout, self.registry, skips, self.quorum, watch)

    def session(self) -> Session:
        """Return the run with these nodes."""
        return session_of(self.experiment, self.built, engine=partial(Flower, self, self.greeted(), False))
