"""Rounds with clients that are nodes of a Flower federation."""

import time
from functools import partial
from math import isfinite, prod

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.encryption import unusable
from turnout.engines.faults import Faults
from turnout.engines.flower.clients import Clients
from turnout.engines.flower.greeting import Members
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.stopwatch import Stopwatch
from turnout.engines.inputs import Job
from turnout.engines.messaging import MessageAsk, MessageEngine
from turnout.engines.outliers import largest_entry
from turnout.engines.state import Progress, begin
from turnout.io.serialization import Buffer, decode

LEAF_BYTES = 2**10
"""Bytes that the description of one array in a reply may have."""


class FlowerAsk(MessageAsk):
    """Answers `ask` by messages to nodes.

    Args:
        clients: Sends requests to clients.
        stopwatch: Measures how long they take.
        *arguments: Arguments of the base class.
    """

    def __init__(self, clients: Clients, stopwatch: Stopwatch, *arguments):
        super().__init__(*arguments)
        self.clients, self.stopwatch = clients, stopwatch

    def _run_clients(self, cohort, method, message, losses):
        done = super()._run_clients(cohort, method, message, losses)
        queries, waits = np.asarray(done.queries).tolist(), self.clients.waits()
        for place, client in enumerate(np.asarray(cohort.ids).tolist()):
            if self.delivery.arrived[place]:
                self.stopwatch.add(client, waits[client], queries[place], *self._sent[client])
        return done

    def connected(self):
        return jnp.asarray(self.clients.connected(self.job.population.count))

    def _decrypt(self, clients, header, body, expected):
        check = partial(validate_reply, start=self.job.start, expected=expected)
        began = time.perf_counter()
        for undecrypted, client in enumerate(clients):
            replies, _ = self.clients.ask({client: (header, body)}, "decrypt", size_of(expected), check, 1)
            if client in replies:
                self._measured = (self._measured[0] if self._measured else 0, round(1e6 * (time.perf_counter() - began)))
                return replies[client], undecrypted
        raise UserError(
            f"none of the {len(clients)} clients that answered in round {int(self.round)} decrypted the sum of their replies: "
            "look into the logs of the nodes, then start again to continue"
        )

    def _exchange(self, requests, expected, losses):
        contents = {request.number: request[2:] for request in requests}
        check = partial(
            validate_reply,
            start=self.job.start,
            expected=expected,
            counts=("queries", "missed"),
            faults=self.job.faults,
            encrypted=self.job.aggregation == "encrypted",
        )
        began = time.perf_counter()
        replies, repeats = self.clients.ask(contents, "ask", size_of(expected), check, 0 if self._repeats else len(contents))
        self._measured = round(1e6 * (time.perf_counter() - began)) if contents else 0, 0
        self._sent = {number: (len(replies[number]), len(contents[number][1])) for number in replies}
        arrived = {request.place: replies[request.number] for request in requests if request.number in replies}
        retries = np.zeros_like(losses)
        for request in requests:
            retries[request.place] = repeats[request.number]
        return arrived, retries


def size_of(expected: PyTree) -> int:
    """Return the most bytes of a serialised reply with the shapes and types in `expected`."""
    leaves = jax.tree.leaves(expected)
    return sum(prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves) + LEAF_BYTES * (1 + len(leaves))


def validate_reply(
    reply: Buffer,
    start: PyTree,
    expected: PyTree,
    counts: tuple[str, ...] = (),
    faults: Faults | None = None,
    encrypted: bool = False,
) -> str | None:
    """Return None if a reply has the expected structure, shapes, types and counts and is finite, and otherwise what is wrong.

    Args:
        reply: The reply.
        start: Initial parameters.
        expected: Shapes and types of a valid reply.
        counts: Names of the counts that must come with it.
        faults: Bounds of its norm.
        encrypted: Whether it is encrypted.
    """
    try:
        tree, header = decode(reply, start)
    except UserError:
        return "malformed"
    if not all(type(count := header.get(name)) is int and 0 <= count < 2**31 for name in counts):
        return "without its counts"
    expected_leaves, expected_structure = jax.tree.flatten(expected)
    leaves, structure = jax.tree.flatten(tree)
    types, expected_types = ([(leaf.shape, leaf.dtype) for leaf in each] for each in (leaves, expected_leaves))
    if structure != expected_structure or types != expected_types:
        return "of another shape or type"
    if encrypted:
        return unusable(tree)
    if not isfinite(largest_entry(tree)):
        return "not finite"
    return f"longer than norm = {float(faults.norm):g}" if faults is not None and not faults.bound(tree)[1] else None


class Flower(MessageEngine):
    """Runs one algorithm with the nodes of a federation: the same run as with `Compiled`, as long as no reply is lost.

    Args:
        mailbox: Sends the messages.
        nodes: The clients and their nodes.
        resumed: Whether the run starts from a checkpoint.
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics.
        every: Rounds between two trace rows.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        nodes: Members,
        resumed: bool,
        job: Job,
        algorithm,
        metrics: tuple[str, ...],
        every: int,
    ):
        super().__init__(job, algorithm, metrics, every)
        self.nodes, self.clients = nodes, Clients(mailbox, nodes, self._skips)
        self.stopwatch = Stopwatch()
        self.resumed, self.committed = resumed, self.versions.copy()
        self._asks = partial(FlowerAsk, self.clients, self.stopwatch, self.versions, self.committed, self.outliers, self.sums)

    def begin(self) -> Progress:
        """Return the state before the first round; the states of clients are represented by their versions.

        For a run that is `resumed` only the shapes are right, since the start is not to be repeated.
        """
        if self.resumed:
            shapes = jax.eval_shape(partial(begin, CompiledAsk, self.job, self.algorithm, self.sites))
            return self._with_versions(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))
        return self._with_versions(begin(self._asks, self.job, self.algorithm, self.sites))

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Run until `rows` more trace rows are written or the round `limit` is reached.

        Until the next call, nodes can return to the states that they had at this one.

        Args:
            progress: State of the run.
            limit: Number of the last round.
            rows: Number of trace rows to write.
        """
        self.versions[:] = self.committed[:] = np.asarray(progress.clients)
        progress, table = self.play(self._asks, progress, limit, rows)
        return self._with_versions(progress), table

    def name_of(self, client: int) -> str:
        """Return the name of a client, for messages."""
        return self.nodes[client].name

    def facts(self) -> dict:
        """Return what a summary tells of the nodes; numbers of rows that only a node says are its claim."""
        claimed = {info.name: info.rows for info in self.nodes.values() if info.claimed}
        return {
            "federation": {
                "rows_claimed": claimed,
                "members": [vars(status) for status in self.nodes.statuses()],
                **self._by_standing(),
                "unusable_replies": {reason: count for reason, count in self.clients.mailbox.counts.items() if count},
            }
        }

    def speeds(self) -> str | None:
        """Return the measured speeds of the clients, as a CSV file; None where no exchange was measured."""
        return self.stopwatch.to_csv(self.job.population.count)

    def _by_standing(self) -> dict[str, list[str]]:
        """Return the names of the clients that are not present now."""
        standings = self.nodes.standings()
        return {
            standing.replace(" ", "_"): [self.name_of(i) for i in self.nodes if standings[i] == standing]
            for standing in ("absent", "left out", "revoked")
        }

    @property
    def _skips(self) -> bool:
        return self.job.faults is not None and self.job.faults.missing == "skip"

    def _with_versions(self, progress: Progress) -> Progress:
        return progress._replace(clients=self.versions.copy())

    def _everyone(self, header, body):
        """Ask all clients, and ask those without an answer again, unless missing clients are skipped."""
        scalar = jax.ShapeDtypeStruct((), jnp.result_type(float))
        expected = (
            {"value": scalar, "gradient": self.job.start} if "gradient" in self.asked else dict.fromkeys(self.asked, scalar)
        )
        expected |= dict.fromkeys({*self.asked} & {"accuracy"}, scalar)
        check = partial(validate_reply, start=self.job.start, expected=expected)
        everyone = dict.fromkeys(range(self.job.population.count), (header, body))
        dispensable = len(everyone) - 1 if self._skips else 0
        answers, _ = self.clients.ask(everyone, "measure", size_of(expected), check, dispensable)
        self.clients.mailbox.counts["evaluations by fewer clients"] += len(answers) < len(everyone)
        return answers
