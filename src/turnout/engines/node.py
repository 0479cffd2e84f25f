"""One client of an engine that exchanges messages: it answers requests in bytes."""

from collections.abc import Callable, Collection
from hashlib import sha256

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.client import Done
from turnout.core.compiling import program
from turnout.core.errors import UserError
from turnout.core.local_methods import local_method
from turnout.core.seeds import Seeds
from turnout.engines.client_runner import client_runner
from turnout.engines.encryption import SumKey
from turnout.engines.groups.evaluation import model_of, personalised, trains_after
from turnout.engines.groups.grouped_algorithm import apart_from
from turnout.engines.groups.ranks import cut, cut_sites, padded
from turnout.engines.groups.statistics import first_statistics
from turnout.engines.request import FIRST, AskHeader, DecryptHeader, MeasureHeader, Refused, Version, parse_header
from turnout.engines.sealing import sealed_for
from turnout.io.serialization import Buffer, copy_leaves, decode, encode
from turnout.privacy.mechanism import Protection
from turnout.problems.base import Problem
from turnout.problems.oracles.base import Oracle


class LastReply:
    """The digest of the last request, and the reply to it."""

    def __init__(self):
        self.request, self.reply = b"", b""

    def to(self, request: bytes) -> bytes | None:
        """Return the reply to the last request, if that was `request`, and otherwise None."""
        return self.reply if request == self.request else None

    def put(self, request: bytes, reply: bytes) -> None:
        """Replace request and reply.

        Args:
            request: Digest of the request.
            reply: The reply to it.
        """
        self.request, self.reply = request, reply


class States:
    """The private states of one client by version, in memory."""

    def __init__(self):
        self._held: dict[Version, PyTree] = {}

    def __getitem__(self, version: Version) -> PyTree:
        return self._held[version]

    def __setitem__(self, version: Version, state: PyTree) -> None:
        self._held[version] = state

    def keep(self, versions: Collection[Version]) -> None:
        """Forget all states but those of the `versions`."""
        self._held = {version: state for version, state in self._held.items() if version in versions}


class Node:
    """One client, with its rows, its private states and its own copy of the algorithm.

    A request names the version of the state to start from, and so tells which of the client's new states were used; `states`
    holds the versions that a request may still name. A repeated request gets the same reply again.

    Args:
        number: Number of the client.
        client: Loss and rows of the client.
        algorithm: The algorithm, bound to the problem.
        start: Initial parameters.
        seeds: Seed of each purpose.
        protection: Noise for differential privacy.
        mixed: Whether the loss is computed in bfloat16.
        sum_key: The members' key: replies are encrypted by it, and sums decrypted. None: replies are sent as they are.

    Attributes:
        schema: A digest of the classes and the names of the features; empty where these are not known.
        states: The private states by version; at first in memory.
        last: The last reply.
        cut: The matrices of whose adapters messages and replies have only what the client has.
        local: Whether each client adds its own noise.
        protect: Called before each new answer; returns the protection of its reply, and raises `Refused` to refuse it.
        public: Returns of a local method and a message whether the numbers of queries and of unsolved problems may be told.
        spent: Returns the epsilon that the client has spent; None where nothing counts it.
    """

    def __init__(
        self,
        number: int,
        client: Oracle | Problem,
        algorithm,
        start: PyTree,
        seeds: Seeds,
        protection: Protection | None = None,
        mixed: bool = False,
        sum_key: SumKey | None = None,
    ):
        self.sum_key = sum_key
        self.schema = client.schema.digest if isinstance(client, Problem) and client.schema is not None else ""
        self.number, self.start, self.runner = number, copy_leaves(start), client_runner(client, mixed)
        self.algorithm, self.seeds, self.cut = apart_from(algorithm), copy_leaves(seeds), cut_sites(algorithm, protection)
        protection = copy_leaves(protection)
        self.protect: Callable[[], Protection | None] = lambda: protection
        self.public: Callable[[str, PyTree], tuple[bool, bool]] = lambda method, message: (True, True)
        self.spent: Callable[[], float | None] = lambda: None
        self.local = protection is not None and protection.model == "local"
        self.first = jax.tree.map(np.asarray, self.algorithm.client_state(self.start))
        self.states = States()
        self.last = LastReply()
        self._methods: set[str] = set()

    def state(self, version: Version) -> PyTree:
        """Return the private state of a version; `KeyError` where it is not stored."""
        return self.first if version == FIRST else self.states[version]

    def reset(self, state: PyTree) -> None:
        """Take `state` as the initial one, and forget all others."""
        self.first, self.states = state, States()
        self.forget()

    def forget(self) -> None:
        """Forget the last request and its reply."""
        self.last.put(b"", b"")

    def answer(self, header: bytes, body: Buffer, digest: bytes | None = None) -> bytes:
        """Run the local method that a request's header names on the message in its body; `digest` is that of the body.

        Args:
            header: Header of the request.
            body: The message.
            digest: SHA-256 digest of the body; None computes it.
        """
        fields, request = parse_header(header, AskHeader), _digest(header, body, digest)
        reply = self.last.to(request)
        if reply is None:
            reply = self._run(fields, body)
            self.last.put(request, reply)
        return reply

    def measure(self, header: bytes, body: Buffer, digest: bytes | None = None) -> bytes:
        """Return what the header asks of `metrics.measure` for f_i, at the parameters in the body.

        In the local model of privacy it is protected like a reply to an exchange.

        Args:
            header: Header of the request.
            body: The parameters.
            digest: SHA-256 digest of the body; None computes it.
        """
        fields = parse_header(header, MeasureHeader)
        names, x = tuple(fields.measure), self._model(fields.base, self._decode(body))
        if not self.local:
            return encode(self.runner.measure(names, x), self.start)
        request = _digest(header, body, digest)
        reply = self.last.to(request)
        if reply is None:
            protection = self.protect()
            # Requests of other parameters get other noise.
            noise = protection.key(f"measure {request.hex()}", 0, 0, self.number)
            reply = encode(protection.protect(Done(self.runner.measure(names, x)), noise).reply, self.start)
            self.last.put(request, reply)
        return reply

    def decrypt(self, header: bytes, body: Buffer, digest: bytes | None = None) -> bytes:
        """Return the numbers of the encrypted sum in the body, of at least two replies, times 2^`encryption.FRACTION`.

        Args:
            header: Header of the request.
            body: The sum.
            digest: SHA-256 digest of the body, which is not needed.
        """
        fields, total = parse_header(header, DecryptHeader), self._decode(body)
        if self.sum_key is None:
            raise Refused("this node has no key for sums, since its configuration has another aggregation than 'encrypted'")
        numbers = self.sum_key.decrypt(total, fields.numbers, fields.replies)
        if not fields.seal:
            return encode(numbers, self.start)
        try:
            sealed, told = sealed_for(fields.seal, numbers)
        except ValueError:
            raise Refused("the request names no public key for the sum") from None
        return encode(sealed, self.start, told)

    def _run(self, fields: AskHeader, body: Buffer) -> bytes:
        self._check(fields.method)
        new, base, message = fields.made, self._base(fields.base), padded(self._decode(body), self.cut)
        protection = self.protect()
        noise = None if protection is None else protection.key(fields.method, *new, self.number)
        key = _key(self.seeds, *new, self.number)
        arguments = self.algorithm, self.start, self.number, base, key, message, fields.method
        done = self.runner.run(*arguments, protection, noise)
        self.states.keep({fields.base, fields.kept, fields.before})
        self.states[new] = jax.tree.map(np.asarray, done.state)
        reply = done.reply if fields.weight is None else weighted(done.reply, fields.weight)
        reply = cut(reply, self.cut, self.number) if self.sum_key is None else self.sum_key.encrypt(reply)
        queries, missed = (
            int(count) * public for count, public in zip(done[2:], self.public(fields.method, message), strict=True)
        )
        return encode(reply, self.start, {"queries": queries, "missed": missed})

    def _check(self, method: str) -> None:
        if method not in self._methods:
            try:
                local_method(self.algorithm, method, self.start)
            except UserError as error:
                raise Refused(str(error)) from None
            self._methods.add(method)

    def _base(self, version: Version) -> PyTree:
        try:
            return self.state(version)
        except KeyError:
            raise Refused(
                f"the request starts from the state {version}, which this node does not have: give it its former --states, "
                "or start a new run"
            ) from None

    def _model(self, base: Version, x: PyTree) -> PyTree:
        """Return where this client's function is evaluated, given what a request for metrics holds."""
        x, statistics = x if first_statistics(self.algorithm) else (x, {})
        return self.model(x, statistics, self._base(base) if personalised(self.algorithm) else None)

    def model(self, x: PyTree, statistics: PyTree, state: PyTree) -> PyTree:
        """Return where the function of this client is evaluated.

        Args:
            x: The parameters, of which the algorithm knows.
            statistics: The statistics that the server averages.
            state: The private state.
        """
        if trains_after(self.algorithm):
            state = self.runner.trained_state(self.algorithm, self.number, x, statistics, state)
        return model_of(self.algorithm, x, statistics, state)

    def _decode(self, body: Buffer) -> PyTree:
        try:
            return decode(body, self.start)[0]
        except UserError as error:
            raise Refused(str(error)) from None


def _digest(header: bytes, body: Buffer, digest: bytes | None) -> bytes:
    return sha256(header + (digest or sha256(body).digest())).digest()


@program
def _key(seeds: Seeds, round, exchange, number):
    return jax.random.fold_in(seeds.exchange(round, exchange), number)


def weighted(reply: PyTree, weight: float) -> PyTree:
    """Return a reply times its client's weight.

    Args:
        reply: The reply.
        weight: The client's weight.
    """
    return jax.tree.map(lambda leaf: np.asarray(leaf) * np.asarray(weight, leaf.dtype), reply)
