"""Base of the engines whose clients are reached by messages in bytes: nodes in one process, and Flower."""

import json
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree

from turnout.accounting.ledger import Site
from turnout.core.client import Done
from turnout.core.cohort import Cohort
from turnout.core.compiling import program
from turnout.core.debugging import shape_of
from turnout.core.errors import UserError
from turnout.core.lazy_stack import LazyStack
from turnout.core.local_methods import local_method
from turnout.core.messages import payload, split_each
from turnout.core.replies import SumsOnly, Weight
from turnout.engines.ask import Delivery, EngineAsk
from turnout.engines.async_ask import AsyncAsk
from turnout.engines.base import Engine
from turnout.engines.encryption import add, encrypted_shape, numbers_in, restored, server_context
from turnout.engines.exchange.strong_types import completed
from turnout.engines.exchange.timing import timed
from turnout.engines.faults import Faults
from turnout.engines.groups.evaluation import model_of, personalised
from turnout.engines.groups.ranks import by_rank, cut, padded
from turnout.engines.groups.statistics import attached
from turnout.engines.inputs import SUMS, Job
from turnout.engines.metrics import asked_for
from turnout.engines.outliers import Outliers
from turnout.engines.remote_evaluation import RemoteEvaluation
from turnout.engines.reply_usage import Survey, sums_needed, survey
from turnout.engines.request import FIRST, Version
from turnout.engines.state import Progress, as_row, delivered, judge, play_round, with_target
from turnout.io.serialization import Buffer, decode, encode
from turnout.problems.base import Population
from turnout.problems.storage.jax_client import JaxClient
from turnout.samplers.base import Sampler


class Request(NamedTuple):
    """A request to the client `number` at `place` of a cohort; clients that get the same message share one `body` object."""

    place: int
    number: int
    header: bytes
    body: Any


class SummedReplies(SumsOnly):
    """Replies of which the server has only `held`, their sum with the weights `by`: lambda_i or lambda_i / p_i."""

    by: Weight
    why = "the server gets only sums of replies, so that it cannot look at each: take aggregation = 'plain'"

    def summed(self, by):
        if by != self.by:
            raise UserError(f"the server got the sum of replies by {self.by}, and there is none by {by}")
        return self.held


class MessageAsk(AsyncAsk):
    """Answers `ask` on the host by a request to each client of a cohort; loops and branches are those of Python.

    Args:
        versions: Version of each client's state in use, [n, 2].
        stored: Version of each client's state that has to stay available, [n, 2].
        outliers: Compares the replies.
        sums: Weights of the one sum that each call needs: clients multiply their replies by these, and the server receives only
            the sum, encrypted if the job says so. None, for all calls or one: the server receives each reply.
        *arguments: Arguments of `EngineAsk`.
    """

    summed: ClassVar[type[SummedReplies]] = SummedReplies

    def __init__(
        self,
        versions: Int[np.ndarray, "n 2"],
        stored: Int[np.ndarray, "n 2"],
        outliers: Outliers,
        sums: dict[str, Weight | None] | None,
        *arguments,
    ):
        super().__init__(*arguments)
        self.versions, self.stored, self.outliers, self.sums = versions, stored, outliers, sums
        self._measured: tuple[int, int] | None = None

    def _draw(self, sampler, state, key, population):
        return _draw(sampler, state, key, population)

    def _collected(self, replies):
        if self._weight is None:
            return replies
        sums = jax.tree.map(lambda stack: jnp.asarray(stack[0]), replies.held)
        return self.summed(replies.cohort, replies.answered, held=sums, by=self._weight)

    def _send(self, path, *rest):
        self._weight = None if self.sums is None else self.sums[path]
        return super()._send(path, *rest)

    @abstractmethod
    def _exchange(
        self, requests: list[Request], expected: PyTree, losses: Int[np.ndarray, " m"]
    ) -> tuple[dict[int, Buffer], Int[np.ndarray, " m"]]:
        """Send requests; return the replies that arrived, by place, and how often each place was asked again.

        Replies have the shapes in `expected`; the first `losses` of each place are lost.
        """

    @abstractmethod
    def _decrypt(self, clients: list[int], header: bytes, body: bytes, expected: PyTree) -> tuple[Buffer, int]:
        """Let one of the `clients` decrypt a sum; return its reply, of the shapes `expected`, and how many gave none before."""

    def loop(self, count, body, carry, until=None):
        outside, path = len(self.draws), f"{self.calls.next_path()}.loop"
        for _ in range(int(count)):
            if until is not None and until(carry):
                break
            with self.calls.inside(path):
                carry = body(carry)
            self.state = self._pause(outside)
        return carry

    def cond(self, predicate, then, otherwise, carry):
        outside, path = len(self.draws), self.calls.next_path()
        name, branch = ("then", then) if predicate else ("otherwise", otherwise)
        with self.calls.inside(f"{path}.{name}"):
            carry = branch(carry)
        self.state = self._pause(outside)
        return carry

    def _run_clients(self, cohort, method, message, losses):
        messages = messages_of(message, cohort.places)
        expected = shape_of(first_reply, self.job, self.algorithm, messages[0], name=method)
        encrypted = self.job.aggregation == "encrypted"
        sent = encrypted_shape(numbers_in(expected)) if encrypted else expected
        replies, repeats = self._exchange(self._requests(cohort, method, messages), sent, np.asarray(losses))
        ids = np.asarray(cohort.ids).tolist()
        decoded = {place: decode(reply, self.job.start) for place, reply in replies.items()}
        if not encrypted:
            # A client has no say in the rows above its rank.
            sites, trees = self.cut, decoded.items()
            decoded = {place: (padded(cut(tree, sites, ids[place]), sites), header) for place, (tree, header) in trees}
        # Clients whose replies are refused have worked, too.
        headers = [decoded[k][1] if k in decoded else {"queries": 0, "missed": 0} for k in range(cohort.places)]
        queries, missed = (jnp.asarray([header[name] for header in headers], "int32") for name in ("queries", "missed"))
        if self.job.faults is not None and self.job.faults.bounds:
            decoded = bounded(decoded, self.job.faults)
        if not encrypted:
            self.outliers.note({ids[place]: tree for place, (tree, _) in decoded.items()})
        arrived = np.isin(np.arange(cohort.places), list(decoded))
        self.delivery = Delivery(jnp.asarray(arrived), jnp.asarray(repeats, "int32"), microseconds=self._measured)
        trees = {place: tree for place, (tree, _) in decoded.items()}
        if self._weight is None:
            return Done(stacked(trees, cohort.places, expected), None, queries, missed)
        usable = arrived & (self._repeats | (np.asarray(losses) == 0))
        if self.job.fleet is not None:
            again = np.asarray(losses) * self._repeats + repeats
            site = Site("", method, cohort.selection, bytes_down=payload(messages[0]), bytes_up=payload(sent))
            parts = by_rank(site, self.cut, cohort, messages[0], () if encrypted else expected)
            on_time = timed(self.job.fleet, cohort, jnp.asarray(usable), queries, jnp.asarray(again, "int32"), parts).on_time
            usable = np.asarray(on_time)
        used = np.flatnonzero(usable).tolist()
        if encrypted:
            total = self._decrypted({ids[place]: trees[place] for place in used}, expected)
        else:
            total = self._total({place: trees[place] for place in used}, expected)
        return Done(stacked({0: total}, 1, expected), None, queries, missed)

    def _total(self, replies: dict[int, PyTree], expected: PyTree) -> PyTree:
        """Return the sum of the replies that are used, by place."""
        return added([*replies.values()], expected)

    def _ciphertexts(self, replies: dict[int, Any]) -> np.ndarray:
        """Return the sum of encrypted replies, by client."""
        return add([*replies.values()])

    def _decrypted(self, replies: dict[int, Any], expected: PyTree) -> PyTree:
        """Return the sum of encrypted replies, by client, which one of these clients decrypts; zero if there are none."""
        numbers = np.zeros(numbers_in(expected), "int64")
        if len(replies) == 1:
            raise UserError(
                f"only client {[*replies][0]} answered in round {int(self.round)}, and a sum of one reply is that reply, which "
                "aggregation = 'encrypted' does not decrypt: take larger cohorts, or [faults] missing = 'repeat'"
            )
        if replies:
            # Members take turns.
            turn = (int(self.round) + int(self.state.exchanges)) % len(replies)
            clients = [*replies][turn:] + [*replies][:turn]
            header = json.dumps({"replies": len(replies), "numbers": numbers.size}).encode()
            body, like = encode(self._ciphertexts(replies), self.job.start), jax.ShapeDtypeStruct(numbers.shape, numbers.dtype)
            reply, undecrypted = self._decrypt(clients, header, body, like)
            numbers, _ = decode(reply, self.job.start)
            self.delivery = self.delivery._replace(undecrypted=undecrypted, microseconds=self._measured)
        return restored(numbers, expected)

    def _requests(self, cohort: Cohort, method: str, messages: list[PyTree]) -> list[Request]:
        """Return a request to each client of the cohort; one message is for all of them, and several are one for each place.

        Clients of the same ranks share one body.
        """
        ids, sites, bodies, requests = np.asarray(cohort.ids).tolist(), self.cut, {}, []
        weights = self._weights(cohort)
        for k in np.flatnonzero(cohort.active).tolist():
            i, number = ids[k], k if len(messages) > 1 else 0
            form = number, *(site.ranks[i] for site in sites)
            if form not in bodies:
                bodies[form] = encode(cut(messages[number], sites, i), self.job.start)
            requests.append(Request(k, i, self._header(method, i, weights[k]), bodies[form]))
        return requests

    def _weights(self, cohort: Cohort) -> list[float | None]:
        """Return the factor of the reply of each place; None for 1."""
        return [None] * cohort.places if self._weight is None else np.asarray(getattr(cohort, self._weight)).tolist()

    @property
    def _repeats(self) -> bool:
        return self.job.faults is not None and self.job.faults.repeats

    def _header(self, method: str, number: int, weight: float | None) -> bytes:
        return ask_header(method, self.versions[number], self.stored[number], self._version(), weight)

    def _version(self) -> Version:
        """Return the version of the states that the exchange at hand makes."""
        return int(self.round), int(self.state.exchanges)

    def _commit(self, cohort: Cohort, answered, states, turn=None):
        made = self._version() if turn is None else np.stack([np.asarray(part) for part in turn], -1)[np.asarray(answered)]
        self.versions[np.asarray(cohort.ids)[np.asarray(answered)]] = made


def messages_of(message: PyTree, places: int) -> list[PyTree]:
    """Return the one message to all clients, or the message to each of the places where some of it differs.

    Args:
        message: The message, with `Each` parts or without.
        places: m.
    """
    individual, write = split_each(jax.tree.map(np.asarray, message))
    return [write(jax.tree.map(lambda a, k=k: a[k], individual)) for k in range(places if individual else 1)]


def ask_header(method: str, base, kept, made: Version, weight: float | None = None, before=None) -> bytes:
    """Return the header of a request to run a local method, in JSON.

    Args:
        method: Address of the local method.
        base: Version of the state to start from [2].
        kept: Version of the state that has to stay available [2].
        made: Version of the state that is made.
        weight: Factor of the reply; None for 1.
        before: Version of the state before a hub began, which has to stay available too [2]; None for none.
    """
    fields = {"method": method, "base": base.tolist(), "kept": kept.tolist(), "made": made}
    further = {"weight": weight, "before": None if before is None else before.tolist()}
    return json.dumps(fields | {name: value for name, value in further.items() if value is not None}).encode()


def bounded(decoded: dict[int, tuple[PyTree, dict]], faults: Faults) -> dict[int, tuple[PyTree, dict]]:
    """Return the replies whose norm is accepted, scaled down where they are clipped.

    Args:
        decoded: Reply and header by place.
        faults: Bounds of the norm.
    """
    replies = {place: (*faults.bound(tree), header) for place, (tree, header) in decoded.items()}
    return {place: (jax.tree.map(np.asarray, tree), header) for place, (tree, accepted, header) in replies.items() if accepted}


@program
def _draw(sampler: Sampler, state: PyTree, key, population: Population) -> Cohort:
    """Draw a cohort; jitted, so that a loop in a draw is compiled once."""
    return sampler.draw(state, key, population)


@partial(jax.jit, static_argnames=("name",))
def first_reply(job: Job, algorithm, message: PyTree, *, name: str) -> PyTree:
    """Return what client 0 replies to its first message; never run, but jitted, so that shapes are worked out once."""
    state, number = algorithm.client_state(job.start), jnp.zeros((), "int32")
    client = JaxClient(number, jax.random.key(0), state, job.storage.oracle(number))
    return completed(local_method(algorithm, name, job.start)(client, message), state).reply


def stacked(trees: dict[int, PyTree], places: int, like: PyTree) -> PyTree:
    """Return the `trees` by place, shaped as in `like`, as one tree of stacks."""
    shapes, structure = jax.tree.flatten(like)
    leaves = {place: jax.tree.leaves(tree) for place, tree in trees.items()}
    parts = ([leaves[k][j] if k in leaves else None for k in range(places)] for j in range(len(shapes)))
    return jax.tree.unflatten(structure, [LazyStack(*pair) for pair in zip(parts, shapes, strict=True)])


def added(replies: list[PyTree], like: PyTree) -> PyTree:
    """Return the sum of replies, each of which is read once; zero if there are none.

    Args:
        replies: The replies.
        like: Shapes and types of a reply.
    """
    stack, all_of_them = stacked(dict(enumerate(replies)), len(replies), like), np.ones(len(replies))
    return jax.tree.map(lambda stack: np.asarray(stack.sum(all_of_them)), stack)


_judge = program(judge, static_argnames="metrics")


class MessageEngine(Engine):
    """Plays rounds of one algorithm on the host; the clients are elsewhere.

    Args:
        job: Inputs of the run.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics in a trace row.
        every: Rounds between two trace rows.
    """

    keeps_apart: ClassVar[bool] = True
    """Whether only the clients have their private states."""

    def __init__(self, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        self.job, self.algorithm, self.metrics, self.every = job, algorithm, metrics, every
        surveyed = survey(job, algorithm)
        self.sites = surveyed.sites
        self.sums = self._sums_of(surveyed)
        if job.aggregation == "encrypted":
            server_context()
        names = asked_for(metrics)
        # Each client replies with its accuracy, and their list is "accuracies".
        self.each = "accuracies" in names
        self.asked = tuple(dict.fromkeys("accuracy" if name == "accuracies" else name for name in names))
        further = {"test": job.test, "held_out": job.held_out}
        remote = {prefix: part.problem for prefix, part in further.items() if part is not None and part.problem.remote}
        self.apart = {prefix: RemoteEvaluation(problem, prefix, metrics) for prefix, problem in remote.items()}
        self.outliers = Outliers()
        self.versions = np.tile(np.asarray(FIRST), (self._holders, 1))

    def _sums_of(self, surveyed: Survey) -> dict[str, Weight | None] | None:
        """Return the weights of the one sum of each call of which the server gets no single reply; None where it gets each."""
        return {**sums_needed(surveyed, "aggregation = 'plain'")} if self.job.aggregation in SUMS else None

    @property
    def _holders(self) -> int:
        """How many keep private states: the clients, and whoever comes after them."""
        return self.job.population.count

    def play(self, asks: Callable[..., EngineAsk], progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play until `rows` more trace rows are written or the round `limit` is reached."""
        table = []
        for _ in range(rows):
            rounds = 0 if progress.over else min(self.every - int(progress.round) % self.every, limit - int(progress.round))
            for _ in range(rounds):
                progress = play_round(asks, self.job, self.algorithm, self.sites, progress)
            progress, row = self._trace_row(progress)
            table.append(row)
        return progress, jax.tree.map(lambda *values: np.stack([np.asarray(value) for value in values]), *table)

    def _trace_row(self, progress: Progress) -> tuple[Progress, dict]:
        """Do the same as `state.trace_row`, without a copy of the parameters, which may be a large model."""
        x, statistics = self.algorithm.output(progress.server), progress.statistics
        apart = {prefix: evaluate(partial(self._model, x, statistics, prefix)) for prefix, evaluate in self.apart.items()}
        measured, clients = self._measured(x, statistics), self._clients(progress)
        good, quality, values = _judge(
            self.job, self.algorithm, self.metrics, progress.server, progress.quality, statistics, clients, measured, apart
        )
        if good:
            progress, self.outliers.worst = progress._replace(good=delivered(x, statistics)), None
        elif progress.failed < 0:
            progress = progress._replace(failed=progress.round)
        progress = with_target(self.job, progress._replace(quality=quality), values)
        return progress, as_row(progress, values)

    def name_of(self, client: int) -> str:
        """Return the name of a client, for messages."""
        return f"client {client}"

    def suspect(self) -> str | None:
        """Return which client's replies stand out since the last finite model; None where none does."""
        outlier = self.outliers.worst
        if outlier is None:
            return None
        return (
            f"{self.name_of(outlier.client)} replied with numbers up to {outlier.size:.1e}, the others with numbers up to "
            f"{outlier.others:.1e}: look at this client"
        )

    @abstractmethod
    def _everyone(self, requests: dict[int, tuple[bytes, bytes]]) -> dict[int, Buffer]:
        """Return the clients' replies, by number, to requests to measure f_i: a header and a body for each."""

    def _clients(self, progress: Progress) -> PyTree:
        """Return what is known here of the clients' private states."""
        return progress.clients

    def _model(self, x: PyTree, statistics: dict, prefix: str, i: int) -> PyTree:
        """Return where the function of client i of "test" or "held_out" rows is evaluated: a held-out one begins anew."""
        return model_of(self.algorithm, x, statistics, self.algorithm.client_state(self.job.start))

    @property
    def _personal(self) -> bool:
        """Whether clients have models of their own."""
        return personalised(self.algorithm)

    def _measured(self, x: PyTree, statistics: dict) -> dict | None:
        """Return the mean over the clients that answer of what `metrics.measure` returns; None where the server has the rows."""
        if not self.job.storage.problem.remote and not (self._personal and self.keeps_apart):
            return None
        body = encode(attached(x, statistics), self.job.start)
        count = self.job.population.count
        bases = self.versions[:count].tolist() if self._personal else [None] * count
        headers = ({"measure": self.asked} | ({} if base is None else {"base": base}) for base in bases)
        requests = {i: (json.dumps(header).encode(), body) for i, header in enumerate(headers)}
        replies = self._everyone(requests) if self.asked else {}
        shares = np.asarray(self.job.population.shares)[list(replies)]
        parts = [decode(reply, self.job.start)[0] for reply in replies.values()]
        self.outliers.note(dict(zip(replies, parts, strict=True)))
        if not parts:
            return {}
        means = jax.tree.map(lambda *leaves: np.tensordot(shares / shares.sum(), np.stack(leaves), 1), *parts)
        return means | ({"accuracies": np.stack([part["accuracy"] for part in parts])} if self.each else {})
