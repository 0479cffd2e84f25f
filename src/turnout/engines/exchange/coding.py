"""The server's side of a compressed exchange: it encodes the message, decodes the replies, and remembers both."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from turnout.codecs.coded import UP, Coded, is_common, received, sent, without_loss
from turnout.codecs.parts import Direction
from turnout.core.cohort import Cohort
from turnout.core.compiling import program
from turnout.core.messages import Each, split_each
from turnout.core.replies import DecodedReplies, Replies, SumsOnly
from turnout.engines.exchange.flight import Flight
from turnout.engines.inputs import Job
from turnout.problems.storage.client_states import look_up, write


class Coder:
    """Encodes the message of one exchange and decodes its replies.

    Args:
        job: Inputs of the engine.
        coded: The algorithm.
        name: Address of the local method.
        cohort: Clients that are asked.
        memories: The server's memory of each local method, [n, ...].
        round: Number of the round.
        exchange: Number of the exchange in the round.

    Attributes:
        remembers: Whether anything is remembered.
        heard: The server's memory of the messages to these clients [m, ...].
    """

    def __init__(self, job: Job, coded: Coded, name: str, cohort: Cohort, memories: dict, round, exchange):
        self.coding, self.name, self.cohort, self.memories, self._job = coded.coding(name), name, cohort, memories, job
        self._shared = shared_key(job, round, exchange)
        self.remembers, self._turn = coded.exchange.feedback != "none", (round, exchange)
        (self.heard, self._said), self._ids = look_up(memories[name], cohort) if self.remembers else (([], []), cohort.ids)

    def encoded(self, message: PyTree) -> PyTree:
        """Return what is sent in the place of a message."""
        down, key = self.coding.down, (jax.random.key_data(self._shared),) if self.coding.sends_key else ()
        if not down.codes:
            return (message, *key)
        if not self.remembers and not split_each(message)[0]:
            return (sent(message, [], self._shared, down)[0], *key)
        payload, self.heard = _sent_to_each(message, self.heard, self._shared, direction=down)
        return (Each(payload), *key)

    def decoded(self, replies: Replies) -> Replies:
        """Return the replies that payloads stand for."""
        up = self.coding.up
        if not up.codes:
            return replies
        if isinstance(replies, SumsOnly):
            return LinearReplies(replies.cohort, replies.answered, held=replies, decode=self._decode)
        if not self.remembers:
            return DecodedReplies(replies, self._decode) if replies.lazy else replies.map(self._decode)
        keys = jax.vmap(self._key_of)(self.cohort.ids) if up.codec.decodes_with_key else None
        values, self._said = _received_from_each(replies.values, self._said, keys, direction=up)
        everyone = replies.everyone
        if everyone is not None:
            ids = jnp.arange(jax.tree.leaves(everyone)[0].shape[0], dtype=self.cohort.ids.dtype)
            keys = jax.vmap(self._key_of)(ids) if up.codec.decodes_with_key else None
            everyone, _ = _received_from_each(everyone, self.memories[self.name][1], keys, direction=up)
        return Replies(values, replies.cohort, replies.answered, everyone, replies.losses)

    def remembered(self, answered: Bool[Array, " m"]) -> dict:
        """Return the server's memory after the exchange; of clients that did not answer it is that of before."""
        if not self.remembers:
            return self.memories
        return self.memories | {self.name: write(self.memories[self.name], (self.heard, self._said), self._ids, answered)}

    def _key_of(self, i) -> Any:
        """Return the key with which client i encoded its reply."""
        return key_of_reply(self._job, self.coding.up, i, *self._turn)

    def _decode(self, i, payload: PyTree) -> PyTree:
        key = self._key_of(i) if self.coding.up.codec.decodes_with_key else None
        return received(payload, [], key, self.coding.up)[0]


def shared_key(job: Job, round, exchange) -> Any:
    """Return the key that the server and all clients of an exchange know."""
    # No client has the number n + 1, and the server's own key is that of n.
    return jax.random.fold_in(job.seeds.exchange(round, exchange), job.population.count + 1)


def key_of_reply(job: Job, up: Direction, i, round, exchange) -> Any:
    """Return the key with which client i encodes its reply in an exchange."""
    if is_common(up):
        return shared_key(job, round, exchange)
    return jax.random.fold_in(jax.random.fold_in(job.seeds.exchange(round, exchange), i), UP)


def read_landed(job: Job, coded: Coded, landing: Flight, answered: Bool[Array, " m"], memories: dict) -> tuple[PyTree, dict]:
    """Return the replies [m, ...] that the payloads of landed requests stand for, and the server's memory after them.

    Args:
        job: Inputs of the engine.
        coded: The algorithm.
        landing: The requests.
        answered: Those whose reply is used [m].
        memories: The server's memory of each local method, [n, ...].
    """
    name, cohort = without_loss(landing.method), landing.cohort
    values = Replies(landing.done.reply, cohort, answered).values
    up, known = coded.coding(name).up, memories.get(name)
    (_, said), ids = (([], []), cohort.ids) if known is None else look_up(known, cohort)
    if up.codes:
        keys = jax.vmap(partial(key_of_reply, job, up))(cohort.ids, landing.sent, landing.exchange)
        values, said = _received_from_each(values, said, keys, direction=up)
    return values, memories if known is None else memories | {name: write(known, (landing.heard, said), ids, answered)}


class LinearReplies(SumsOnly):
    """Replies of which only sums of payloads are available, which decode to the sums of the replies.

    Args:
        held: The payloads.
        decode: Returns what the payload of a client stands for, any client's here.
    """

    held: Replies
    decode: Any
    why = "the server gets only sums of replies, so that it cannot look at each: take aggregation = 'plain'"

    def summed(self, by):
        return self.decode(0, self.held.summed(by))


@partial(program, static_argnames="direction")
def _sent_to_each(message: PyTree, memory: list, key, *, direction: Direction) -> tuple[PyTree, list]:
    """Return a payload for each place [m, ...], and the sender's next memory [m, ...]."""
    individual, put = split_each(message)
    return jax.vmap(lambda own, memory: direction.send(put(own), memory, key))(individual, memory)


@partial(program, static_argnames="direction")
def _received_from_each(payload: PyTree, memory: list, keys, *, direction: Direction) -> tuple[PyTree, list]:
    return jax.vmap(direction.receive)(payload, memory, keys)
