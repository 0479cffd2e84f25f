"""One client of an engine that exchanges messages: it answers requests in bytes."""

import json
from collections.abc import MutableMapping
from hashlib import sha256

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.seeds import Seeds
from turnout.engines.client_runner import client_runner
from turnout.io.serialization import Buffer, copy_leaves, decode, encode
from turnout.privacy.mechanism import Protection
from turnout.problems.base import Problem
from turnout.problems.oracles.base import Oracle

Version = tuple[int, int]
"""The round and the exchange that made a private state."""

FIRST: Version = (-1, -1)
"""The version of a client's initial state."""


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
        states: Where private states are stored, by version; default: in memory.
        protection: Noise for differential privacy.
        mixed: Whether the loss is computed in bfloat16.
    """

    def __init__(
        self,
        number: int,
        client: Oracle | Problem,
        algorithm,
        start: PyTree,
        seeds: Seeds,
        states: MutableMapping | None = None,
        protection: Protection | None = None,
        mixed: bool = False,
    ):
        self.number, self.start, self.runner = number, copy_leaves(start), client_runner(client, mixed)
        self.algorithm, self.seeds = copy_leaves(algorithm), copy_leaves(seeds)
        self.protection = copy_leaves(protection)
        self.first = jax.tree.map(np.asarray, self.algorithm.client_state(self.start))
        self.states: MutableMapping = {} if states is None else states
        self._last, self._reply = b"", b""

    def state(self, version: Version) -> PyTree:
        """Return the private state of a version; `KeyError` where it is not stored."""
        return self.first if version == FIRST else self.states[version]

    def reset(self, state: PyTree) -> None:
        """Take `state` as the initial one, and forget all others."""
        self.first, self.states = state, {}
        self.forget()

    def forget(self) -> None:
        """Forget the last request and its reply."""
        self._last, self._reply = b"", b""

    def answer(self, header: bytes, body: Buffer, digest: bytes | None = None) -> bytes:
        """Run the local method that a request's header names on the message in its body; `digest` is that of the body.

        Args:
            header: Header of the request.
            body: The message.
            digest: SHA-256 digest of the body; None computes it.
        """
        request = header + (digest or sha256(body).digest())
        if request != self._last:
            fields = json.loads(header)
            method, (new, base, stored) = fields["method"], (tuple(fields[name]) for name in ("made", "base", "kept"))
            key = _key(self.seeds, *new, self.number)
            message, _ = decode(body, self.start)
            noise = None if self.protection is None else self.protection.key(method, *new, self.number)
            done = self.runner.run(
                self.algorithm, self.start, self.number, self.state(base), key, message, method, self.protection, noise
            )
            for version in {*self.states} - {base, stored}:
                del self.states[version]
            self.states[new] = jax.tree.map(np.asarray, done.state)
            reply = weighted(done.reply, fields["weight"]) if "weight" in fields else done.reply
            self._reply = encode(reply, self.start, {"queries": int(done.queries), "missed": int(done.missed)})
            self._last = request
        return self._reply

    def measure(self, header: bytes, body: Buffer) -> bytes:
        """Return what the header asks of `metrics.measure` for f_i, at the parameters in the body.

        Args:
            header: Header of the request.
            body: The parameters.
        """
        x, _ = decode(body, self.start)
        return encode(self.runner.measure(tuple(json.loads(header)["measure"]), x), self.start)


@jax.jit
def _key(seeds: Seeds, round, exchange, number):
    return jax.random.fold_in(seeds.exchange(round, exchange), number)


def weighted(reply: PyTree, weight: float) -> PyTree:
    """Return a reply times its client's weight.

    Args:
        reply: The reply.
        weight: The client's weight.
    """
    return jax.tree.map(lambda leaf: np.asarray(leaf) * np.asarray(weight, leaf.dtype), reply)
