"""The ClientApp of a node: it answers the handshake, requests to run a local method, and requests for metrics."""

import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from logging import ERROR
from secrets import token_hex
from typing import Protocol

import jax
import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.common.logger import log
from jaxtyping import PyTree

from turnout.engines.flower.payload import pack, pack_body, unpack
from turnout.engines.node import Node
from turnout.engines.request import LONGEST, Refused
from turnout.io.audit import AuditLog
from turnout.io.serialization import Buffer

LONGEST_REFUSAL = 500
"""Most letters of a node's refusal that are shown."""


@dataclass(frozen=True)
class Handshake:
    """The fields that the server and all nodes must agree on: version, precision, configuration and initial parameters.

    Args:
        version: Version of turnout.
        precision: Precision of the run.
        configuration: Digest of the configuration.
        parameters: Shapes and types of the initial parameters, and a digest of their values if these must agree.
        text: The configuration, which the server sends with its greeting.
        encrypted: Whether replies are encrypted, so that the nodes must have one key for sums.
        schema: A digest of the classes and the names of the features; empty where only the nodes know them, None where those
            of the nodes are not compared.
    """

    version: str
    precision: str
    configuration: str
    parameters: str
    text: str = ""
    encrypted: bool = False
    schema: str | None = ""

    @classmethod
    def of(
        cls, configuration: str, precision: str, start: PyTree, exact: bool, encrypted: bool = False, schema: str | None = ""
    ) -> "Handshake":
        """Return the fields of a run of `configuration`, a text, from the parameters `start`; their values count if `exact`.

        Args:
            configuration: Text of the configuration.
            precision: Precision of the run.
            start: Initial parameters.
            exact: Whether the values of the parameters must agree too.
            encrypted: Whether replies are encrypted.
            schema: A digest of the classes and the names of the features; None where those of the nodes are not compared.
        """
        shapes = jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), start)
        values = sha256(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(start))).hexdigest() if exact else ""
        digest = sha256(configuration.encode()).hexdigest()
        return cls(version("turnout"), precision, digest, f"{shapes} {values}", configuration, encrypted, schema)

    @property
    def fields(self) -> dict[str, str]:
        """The fields to agree on."""
        return {name: value for name, value in vars(self).items() if name not in ("text", "encrypted", "schema")}

    @property
    def digest(self) -> str:
        """A digest of all fields. It is part of the type of every request, so that a node with other fields answers none."""
        return sha256(json.dumps(self.fields).encode()).hexdigest()

    def differences(self, other: dict) -> list[str]:
        """Return the names of the fields that differ in `other`."""
        return [name for name, value in self.fields.items() if other.get(name) != value]


class Answering(Protocol):
    """What an app answers for: a node, or a hub."""

    log: AuditLog | None

    def answer(self, kind: str, header: bytes, body: Buffer, digest: bytes) -> bytes:
        """Return the body of the reply to a request; raise `Refused` for one that is not answered."""
        ...

    def greeting(self, refusal: str | None = None) -> bytes:
        """Return the reply to a greeting."""
        ...

    def spent(self) -> float | None:
        """Return the epsilon that the client has spent; None where nothing counts it."""
        ...


@dataclass
class Service:
    """What a node's app answers for.

    Args:
        handshake: The fields of the handshake.
        node: The node.
        log: Where each request and its answer are written down; None for nowhere.
    """

    handshake: Handshake
    node: Node
    log: AuditLog | None = None

    def answer(self, kind: str, header: bytes, body: Buffer, digest: bytes) -> bytes:
        """Return the body of the reply to a request; raise `Refused` for one that is not answered.

        Args:
            kind: "hello", or "ask", "measure" or "decrypt" with the digest of the handshake.
            header: Header of the request.
            body: Its body.
            digest: SHA-256 digest of the body.
        """
        action, _, run = kind.partition("_")
        if kind == "hello":
            return self.greeting()
        answers = {"ask": self.node.answer, "measure": self.node.measure, "decrypt": self.node.decrypt}
        if action not in answers or run != self.handshake.digest:
            raise Refused("the request is not one of the run for which this node answers: start the server again")
        with jax.enable_x64(self.handshake.precision == "double"):
            return answers[action](header, body, digest)

    def greeting(self, refusal: str | None = None) -> bytes:
        """Return the reply to a greeting, with the reason if the server's configuration is refused."""
        fields = {"client": self.node.number, "rows": self.rows, **self.handshake.fields}
        if self.node.sum_key is not None:
            fields["sum_key"] = self.node.sum_key.id
        # The classes that a client has would tell of its rows what its noise hides.
        if self.node.schema and not self.node.local:
            fields["schema"] = self.node.schema
        return json.dumps(fields | ({} if refusal is None else {"refusal": refusal})).encode()

    def spent(self) -> float | None:
        """Return the epsilon that the client has spent; None where nothing counts it."""
        return self.node.spent()

    @property
    def rows(self) -> int:
        """The number of rows that the server is told."""
        return self.node.runner.size


def refusal_of(fields: dict) -> str | None:
    """Return why a node that answered a greeting with `fields` refuses the server's configuration; None if it does not."""
    refusal = fields.get("refusal")
    if refusal is None:
        return None
    return f"client {fields.get('client')} refuses this run: {shown(str(refusal))}"


def shown(sentence: str) -> str:
    """Return a sentence of another machine as it can be shown."""
    return "".join(letter if letter.isprintable() else "?" for letter in sentence[:LONGEST_REFUSAL])


class NodeApp(ClientApp):
    """The app that answers for one node.

    What goes wrong in a client's own code stays at the node: the server is told a reference to the entry of the node's log.

    Args:
        serve: Returns what to answer for, given the node's configuration; called once.
    """

    def __init__(self, serve: Callable[[dict], Answering]):
        super().__init__()
        self.serve, self._greeted = serve, ()
        self.service: Answering | None = None

    def __call__(self, message: Message, context: Context) -> Message:
        kind, entry = message.metadata.message_type.removeprefix("query."), {}
        try:
            self.service = self.service or self.serve(dict(context.node_config))
            header, body = _unpacked(message)
            digest = sha256(body).digest()
            entry = {
                "header": header[:LONGEST].decode(errors="replace"),
                "request": sha256(header + digest).hexdigest(),
                "request_bytes": len(header) + len(body),
            }
            reply = self.service.answer(kind, header, body, digest)
            content: RecordDict | Error = pack(pack_body(reply))
            entry |= {"answer": "reply", "reply": sha256(reply).hexdigest(), "reply_bytes": len(reply)}
        except Refused as error:
            refusal = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, str(error))
            content = pack(self.service.greeting(str(error))) if kind == "hello" else refusal
            entry |= {"answer": "refused", "why": str(error)}
        except Exception:
            reference = token_hex(4)
            content = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, f"client error {reference}: see the node's log")
            log(ERROR, "client error %s", reference, exc_info=True)
            entry |= {"answer": "error", "reference": reference, "why": traceback.format_exc()}
        self._write(message, kind, entry)
        return Message(content, reply_to=message)

    def _write(self, message: Message, kind: str, entry: dict) -> None:
        """Write down a request, and who sent it; a greeting that is repeated, with the same answer, only once."""
        greeted, self._greeted = self._greeted, (kind, *entry.values()) if kind == "hello" else ()
        if self.service is None or self.service.log is None or (greeted and greeted == self._greeted):
            return
        sender = {"run": message.metadata.run_id, "from": message.metadata.src_node_id}
        self.service.log.append(**sender, asked=kind.partition("_")[0][:40], **entry, epsilon=self.service.spent())


def _unpacked(message: Message) -> tuple[bytes, Buffer]:
    try:
        return unpack(message.content)
    except ValueError as error:
        raise Refused(str(error)) from None
