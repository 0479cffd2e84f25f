"""Rounds with clients that are nodes of a Flower federation."""

import json
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from jaxtyping import PyTree

from turnout.engines.asking import finished
from turnout.engines.client import JaxClient
from turnout.engines.compiled import CompiledAsk
from turnout.engines.flower.desk import Terms
from turnout.engines.flower.letters import pack, unpack
from turnout.engines.job import Job
from turnout.engines.progress import Progress, begin
from turnout.engines.wired import Wired, WiredAsk
from turnout.errors import UserError
from turnout.exchange import local_method
from turnout.wire import decode

POLL = 0.02
"""Seconds between two looks for replies."""


class Post:
    """Sends letters to nodes and collects the replies, and calls `mind` while it waits.

    `counts` says how many replies were refused, and why.
    """

    def __init__(self, grid: Grid, deadline: float, mind: Callable[[], None] = lambda: None):
        self.grid, self.deadline, self.mind, self.counts = grid, deadline, mind, Counter()

    def send(self, letters: dict[int, bytes], kind: str) -> dict[int, bytes]:
        """Send a letter to each node, by its id, and return the replies that came before the deadline, by node."""
        nodes = list(letters)
        messages = [Message(pack(letters[node]), node, f"query.{kind}") for node in nodes]
        sent = dict(zip(self.grid.push_messages(messages), nodes, strict=True))
        replies, end = {}, time.monotonic() + self.deadline
        while sent:
            for message in self.grid.pull_messages(set(sent)):
                node = sent.pop(message.metadata.reply_to_message_id, None)
                letter = self._letter(message, node)
                if letter is not None:
                    replies[node] = letter
            if time.monotonic() >= end:
                break
            if sent:
                self.mind()
                time.sleep(POLL)
        self.counts["late or missing"] += len(sent)
        return replies

    def rest(self) -> None:
        """Wait a little before somebody is asked again, who may be about to come back."""
        self.mind()
        time.sleep(10 * POLL)

    def _letter(self, message: Message, node: int | None) -> bytes | None:
        if node is None:
            self.counts["not asked for"] += 1
        elif message.has_error():
            self.counts[f"error {message.error.code}: {message.error.reason}"] += 1
        else:
            try:
                return unpack(message.content)
            except ValueError:
                self.counts["not a letter"] += 1
        return None


def meet(post: Post, terms: Terms, clients: int, patience: float) -> dict[int, int]:
    """Say hello until every one of `clients` clients is there, for at most `patience` seconds; return their nodes' ids."""
    known: dict[int, int] = {}
    end = time.monotonic() + patience
    while len(known) < clients:
        new = set(post.grid.get_node_ids()) - set(known.values())
        for node, letter in post.send(dict.fromkeys(new, b""), "hello").items():
            told = json.loads(letter)
            client, differ = told["client"], terms.differ(told)
            if differ:
                raise UserError(
                    f"client {client} does not agree on {', '.join(differ)}: give the server and all nodes the same version "
                    "of turnout and the same configuration"
                )
            if not 0 <= client < clients:
                raise UserError(f"a node says that it is client {client}, but the clients are 0 to {clients - 1}")
            if client in known:
                raise UserError(f"two nodes say that they are client {client}: give each node a client of its own")
            known[client] = node
        if len(known) < clients and time.monotonic() > end:
            missing = sorted({*range(clients)} - {*known})
            raise UserError(f"{len(missing)} clients did not come within {patience:g} s, the first being client {missing[0]}")
        if len(known) < clients:
            post.rest()
    return known


class FlowerAsk(WiredAsk):
    """Answers `ask` by messages to nodes."""

    def __init__(self, post: Post, nodes: dict[int, int], *arguments):
        super().__init__(*arguments)
        self.post, self.nodes = post, nodes

    def _exchange(self, letters, expected, losses):
        again, waiting, replies = np.zeros_like(losses), letters, {}
        while waiting:
            came = self.post.send({self.nodes[letter.number]: letter.request for letter in waiting}, "ask")
            for letter in waiting:
                reply = came.get(self.nodes[letter.number])
                if reply is not None and self._sound(reply, expected):
                    replies[letter.place] = reply
            waiting = [letter for letter in waiting if letter.place not in replies]
            if not waiting or self.job.faults is None or not self.job.faults.repeats:
                break
            again[[letter.place for letter in waiting]] += 1
            self.post.rest()
        return replies, again

    def _sound(self, reply: bytes, expected: PyTree) -> bool:
        """Whether a reply is what its method replies, in structure, shapes and types, and finite."""
        try:
            tree, header = decode(reply, self.job.start)
        except UserError:
            self.post.counts["not a letter"] += 1
            return False
        wanted, structure = jax.tree.flatten(expected)
        leaves, found = jax.tree.flatten(tree)
        if found != structure or [(leaf.shape, leaf.dtype) for leaf in leaves] != [(leaf.shape, leaf.dtype) for leaf in wanted]:
            self.post.counts["of another shape or type"] += 1
            return False
        if not all(np.all(np.isfinite(leaf)) for leaf in leaves):
            self.post.counts["not finite"] += 1
            return False
        return True

    def _shapes(self, method, message):
        return jax.eval_shape(partial(first_reply, name=method), self.job, self.algorithm, message)


@partial(jax.jit, static_argnames=("name",))
def first_reply(job: Job, algorithm, message: PyTree, *, name: str) -> PyTree:
    """What client 0 replies to its first message. It is never run: compiled, its shapes are worked out once for all rounds."""
    state, number = algorithm.client_state(job.start), jnp.zeros((), "int32")
    client = JaxClient(number, jax.random.key(0), state, job.storage.oracle(number))
    return finished(local_method(algorithm, name, job.start)(client, message), state).reply


class Flower(Wired):
    """Plays rounds of one algorithm with the nodes of a federation: the same run as `Compiled`'s, as long as no reply is lost."""

    def __init__(
        self, post: Post, nodes: dict[int, int], resumed: bool, job: Job, algorithm, metrics: tuple[str, ...], every: int
    ):
        super().__init__(job, algorithm, metrics, every)
        self.resumed, self.kept = resumed, self.versions.copy()
        self._asks = partial(FlowerAsk, post, nodes, self.versions, self.kept, self.sums)

    def begin(self) -> Progress:
        """Return the state before the first round; of a client it has the version of the state in use.

        Of a run that is `resumed` only the shapes are right, since nobody is to be asked for the start again.
        """
        if self.resumed:
            shapes = jax.eval_shape(partial(begin, CompiledAsk, self.job, self.algorithm, self.sites))
            return self._with_versions(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))
        return self._with_versions(begin(self._asks, self.job, self.algorithm, self.sites))

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play on until `rows` more trace rows are written or the round `limit` is reached.

        Until it is called again, nodes can go back to the states that they had when it was called.
        """
        self.versions[:] = self.kept[:] = np.asarray(progress.clients)
        progress, table = self.play(self._asks, progress, limit, rows)
        return self._with_versions(progress), table

    def _with_versions(self, progress: Progress) -> Progress:
        return progress._replace(clients=self.versions.copy())
