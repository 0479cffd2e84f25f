"""The messages of a federation with hubs, without its network: server, hubs and nodes in one process."""

from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from tests.helpers.in_process import Grid, InProcess
from turnout.core.messages import payload
from turnout.engines.encryption import new_key
from turnout.engines.flower.client_app import NodeApp
from turnout.engines.flower.greeting import gathered
from turnout.engines.flower.hub_engine import HubFlower
from turnout.engines.flower.hub_members import ClientsOfHubs, reached
from turnout.engines.flower.hub_service import HubService
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.payload import pack, pack_body, unpack
from turnout.engines.flower.registry import Member, Registry
from turnout.experiment.build import session_of
from turnout.experiment.remote_spec import RemoteSpec
from turnout.federation.handshake import build_for_federation, handshake_of, hubs_of_each
from turnout.federation.hub import service_of_hub
from turnout.hubs.layout import Place
from turnout.io.serialization import decode
from turnout.runs.session import Session


class InProcessHubs(Mailbox):
    """The mailbox of the server, or of a hub, whose hubs are in this process, with their nodes; node 100 + k is hub k.

    Args:
        experiment: The configuration.
        misdeeds: For some hubs a function of the kind of a request and of the honest reply in bytes, which returns the bytes that
            the hub sends, or None if it sends nothing.
        inner: The same for clients, by hub.
        folder: Where hubs keep states; None for memory.
        place: The place of the hub whose mailbox it is; () for the server.
        secret: The members' key for encrypted sums; None for a new one.

    Attributes:
        nodes_of: The mailbox of each hub.
        headers: Bytes of the headers of requests, by kind, and of what replies hold beside their arrays ("up").
        payloads: Bytes of the arrays to hubs and from them, in requests for methods.
    """

    def __init__(
        self,
        experiment,
        misdeeds: dict | None = None,
        inner: dict | None = None,
        folder: Path | None = None,
        place: Place = (),
        secret: bytes | None = None,
    ):
        super().__init__(Grid(self), 60.0)
        self.folder, self.place = folder, place
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.experiment, self.built, self.misdeeds = experiment, build_for_federation(experiment, None), misdeeds or {}
        self.expected, of, depth = handshake_of(experiment, self.built), hubs_of_each(experiment, self.built), len(place)
        self.of = [hubs[depth] if hubs[:depth] == place else None for hubs in of]
        secret = secret or (new_key() if experiment.run.aggregation == "encrypted" else None)
        hubs, inner = range(len({*self.of} - {None})), inner or {}
        self.nodes_of: list = [
            NodesInProcess(experiment, self.own(hub), inner.get(hub), secret)
            if len(of[0]) == 1 + depth
            else InProcessHubs(experiment, folder=folder, place=(*place, hub), secret=secret)
            for hub in hubs
        ]
        self.services = [self._service(hub, mailbox) for hub, mailbox in enumerate(self.nodes_of)]
        self.apps = {100 + hub: NodeApp(lambda _, service=service: service) for hub, service in enumerate(self.services)}
        self.away: set[int] = set()
        self.headers, self.payloads = Counter(), Counter()

    def own(self, hub: int) -> list[int]:
        """Return the clients of a hub."""
        return [client for client, which in enumerate(self.of) if which == hub]

    def _service(self, hub: int, mailbox) -> HubService:
        hubs = isinstance(mailbox, InProcessHubs)
        members = [(f"hub {k}", b"hub %d" % k) for k, _ in enumerate(mailbox.nodes_of)] if hubs else []
        members = members or [(f"client {i}", b"key %d" % i) for i in self.own(hub)]
        registry = Registry(tuple(Member(*member) for member in members))
        service = service_of_hub(self.experiment, self.built, (*self.place, hub), mailbox, registry, self.folder)
        service.end = lambda: None
        return service

    def restart(self, hub: int) -> None:
        """Put another process in the place of a hub, which finds the same nodes, and what the former has written."""
        self.services[hub] = self._service(hub, self.nodes_of[hub])
        self.apps[100 + hub] = NodeApp(lambda _: self.services[hub])

    def connected(self) -> list:
        """Return what the SuperLink tells of the hubs."""
        return [SimpleNamespace(node_id=n, public_key=b"hub %d" % (n - 100)) for n in self.apps if n not in self.away]

    def _replies(self, requests, kind, limit):
        for node, (header, body) in requests.items():
            if node in self.away:
                continue
            request = Message(pack(pack_body(body), header), node, f"query.{kind}")
            request.metadata.__dict__["_message_id"] = "request"
            reply = self.apps[node](request, Context(0, node, {}, RecordDict(), {}))
            if not reply.has_error():
                self._measure(kind.partition("_")[0], header, body, unpack(reply.content)[1][:])
            if node - 100 in self.misdeeds and not reply.has_error():
                sent = self.misdeeds[node - 100](kind.partition("_")[0], unpack(reply.content)[1][:])
                reply = None if sent is None else Message(pack(pack_body(sent)), reply_to=request)
            self.counts["late or missing"] += reply is None
            if reply is not None:
                yield node, reply

    def _measure(self, kind: str, header: bytes, body: bytes, reply: bytes) -> None:
        if kind == "hello":
            return
        start = self.services[0].start
        arrays = payload(decode(body, start)[0])
        self.headers[kind] += len(header) + len(body) - arrays
        parts = [decode(reply, start)[0]]
        if kind not in ("sum", "play"):
            parts = [decode(part.tobytes(), start)[0] for part in parts[0]]
        back = sum(map(payload, parts))
        self.headers[f"{kind} up"] += len(reply) - back
        if kind != "measure":
            self.payloads.update(down=arrays, up=back, messages=1)

    def clients(self, quorum: float | None = None, revoked: int | None = None) -> ClientsOfHubs:
        """Return the clients, which are reached through the hubs.

        Args:
            quorum: How many clients must be there, or which share.
            revoked: A hub that is revoked.
        """
        members = (Member(f"hub {k}", b"hub %d" % k, revoked=k == revoked) for k, _ in enumerate(self.nodes_of))
        through, hubs = reached(self, self.expected, Registry(tuple(members)), self.of, self.services[0].start)
        return ClientsOfHubs(through, self.expected, hubs, self.of, quorum)

    def session(self, resumed: bool = False) -> Session:
        """Return the run with these hubs, which is to be restored if it is `resumed`."""
        skips = self.experiment.faults is not None and self.experiment.faults.missing == "skip"
        members = gathered(self.clients(), 0.0, skips)
        return session_of(self.experiment, self.built, engine=partial(HubFlower, members.mailbox, members, resumed))


class NodesInProcess(InProcess):
    """A hub's mailbox, which reaches the nodes of its own clients."""

    def __init__(self, experiment, own: list[int], misdeeds: dict | None, secret: bytes | None = None):
        remote = isinstance(experiment.problem, RemoteSpec)
        super().__init__(experiment, misdeeds, sizes=[1] * experiment.problem.clients if remote else None, secret=secret)
        self.apps = {10 + i: self.apps[10 + i] for i in own}
