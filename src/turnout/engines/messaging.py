"""What engines share whose clients are reached by messages in bytes: the client's side, and an `ask` that plays on the host."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from turnout.core.client import Done
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.lazy_stack import LazyStack
from turnout.core.local_methods import local_method
from turnout.core.messages import split_each
from turnout.core.replies import SumsOnly, Weight
from turnout.core.seeds import Seeds
from turnout.engines.ask import Delivery, EngineAsk, finished
from turnout.engines.client_runner import held
from turnout.engines.compiled import CompiledAsk, survey
from turnout.engines.inputs import Job
from turnout.engines.metrics import asked_for
from turnout.engines.reply_usage import weights_of
from turnout.engines.state import Progress, ended, judge, play_round, row
from turnout.io.serialization import Buffer, copy_leaves, decode, encode
from turnout.privacy.mechanism import Protection
from turnout.problems.base import Population, Problem
from turnout.problems.oracles.base import Oracle
from turnout.problems.storage.jax_client import JaxClient
from turnout.samplers.base import Sampler

Version = tuple[int, int]
"""The round and the exchange that made a private state."""

FIRST: Version = (-1, -1)
"""The version of the state that a client starts with."""


class Node:
    """One client: it holds its rows, its private states and its own copy of the algorithm, and answers requests in bytes.

    A request names the version of the state that the client is to go on from, and so says which of its new states were used. The
    versions that may still be asked for are kept in `states`; a request just answered gets the same reply again.
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
        self.number, self.start, self.held = number, copy_leaves(start), held(client, mixed)
        self.algorithm, self.seeds = copy_leaves(algorithm), copy_leaves(seeds)
        self.protection = copy_leaves(protection)
        self.first = jax.tree.map(np.asarray, self.algorithm.client_state(self.start))
        self.states: MutableMapping = {} if states is None else states
        self._last, self._reply = b"", b""

    def state(self, version: Version) -> PyTree:
        """Return the private state of a version; `KeyError` where it is not kept."""
        return self.first if version == FIRST else self.states[version]

    def go_on_from(self, state: PyTree) -> None:
        """Take `state` as the first one, and forget what was since."""
        self.first, self.states = state, {}
        self.forget()

    def forget(self) -> None:
        """Forget the reply to the last request, which is not to come again."""
        self._last, self._reply = b"", b""

    def answer(self, header: bytes, body: Buffer, digest: bytes | None = None) -> bytes:
        """Run the local method that the header of a request names on the message in its body, whose digest may be known."""
        request = header + (digest or sha256(body).digest())
        if request != self._last:
            told = json.loads(header)
            made, base, kept = (tuple(told[name]) for name in ("made", "base", "kept"))
            key = _key(self.seeds, *made, self.number)
            mine = self.algorithm, self.start, self.number, self.state(base)
            message, _ = decode(body, self.start)
            noise = None if self.protection is None else self.protection.key(told["method"], *made, self.number)
            done = self.held.run(*mine, key, message, told["method"], self.protection, noise)
            for version in {*self.states} - {base, kept}:
                del self.states[version]
            self.states[made] = jax.tree.map(np.asarray, done.state)
            reply = weighed(done.reply, told["weight"]) if "weight" in told else done.reply
            self._reply = encode(reply, self.start, {"queries": int(done.queries), "missed": int(done.missed)})
            self._last = request
        return self._reply

    def measure(self, header: bytes, body: Buffer) -> bytes:
        """Reply with what `metrics.measure` is to find of f_i, at the parameters in the body, as the header says."""
        x, _ = decode(body, self.start)
        return encode(self.held.measure(tuple(json.loads(header)["measure"]), x), self.start)


@jax.jit
def _key(seeds: Seeds, round, exchange, number):
    """Return the key of a client in an exchange."""
    return jax.random.fold_in(seeds.exchange(round, exchange), number)


def weighed(reply: PyTree, weight: float) -> PyTree:
    """Return a reply times its client's weight."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) * np.asarray(weight, leaf.dtype), reply)


class Letter(NamedTuple):
    """A request to the client `number` at `place` of a cohort; the body is the same object for all who get the same message."""

    place: int
    number: int
    header: bytes
    body: bytes


class Summed(SumsOnly):
    """Replies of which nothing is held but `held`, their sum weighed `by` lambda_i or lambda_i / p_i."""

    by: Weight
    why = "the server gets only sums of replies, so that it cannot look at each: take aggregation = 'plain'"

    def __init__(self, held: PyTree, by: Weight, cohort: Cohort, answered: Bool[Array, " m"]):
        for name, value in {"held": held, "by": by, "cohort": cohort, "answered": answered}.items():
            object.__setattr__(self, name, value)

    def summed(self, by):
        if by != self.by:
            raise UserError(f"the server got the sum of replies by {self.by}, and there is none by {by}")
        return self.held


class WiredAsk(EngineAsk):
    """Answers `ask` on the host by sending a letter to each client of a cohort; `versions` [n, 2] are those of states in use.

    With `sums`, the weights of the sum at each call site, clients multiply their replies by these, and only the sum is kept.
    """

    def __init__(
        self, versions: Int[np.ndarray, "n 2"], kept: Int[np.ndarray, "n 2"], sums: dict[str, Weight] | None, *arguments
    ):
        super().__init__(*arguments)
        self.versions, self.kept, self.sums = versions, kept, sums
        self._by: Weight | None = None

    def _cohort(self, sampler, state, key):
        return cohort_of(sampler, state, key, self.job.population)

    def _collected(self, replies):
        if self._by is None:
            return replies
        held = jax.tree.map(lambda stack: jnp.asarray(stack[0]), replies.held)
        return Summed(held, self._by, replies.cohort, replies.answered)

    def _send(self, path, *rest):
        self._by = None if self.sums is None else self.sums[path]
        return super()._send(path, *rest)

    @abstractmethod
    def _exchange(
        self, letters: list[Letter], expected: PyTree, losses: Int[np.ndarray, " m"]
    ) -> tuple[dict[int, Buffer], Int[np.ndarray, " m"]]:
        """Return the replies that arrived, by place, and how often each place was asked again."""

    def loop(self, count, body, carry, until=None):
        outside, path = len(self._drawn), f"{self._path()}.loop"
        for _ in range(int(count)):
            if until is not None and until(carry):
                break
            with self._inside(path):
                carry = body(carry)
            self.state = self._pause(outside)
        return carry

    def cond(self, predicate, then, otherwise, carry):
        outside, path = len(self._drawn), self._path()
        name, branch = ("then", then) if predicate else ("otherwise", otherwise)
        with self._inside(f"{path}.{name}"):
            carry = branch(carry)
        self.state = self._pause(outside)
        return carry

    def _run_clients(self, cohort, method, message, losses):
        own, write = split_each(jax.tree.map(np.asarray, message))
        messages = [write(jax.tree.map(lambda a, k=k: a[k], own)) for k in range(cohort.places if own else 1)]
        bodies, ids = [encode(one, self.job.start) for one in messages], np.asarray(cohort.ids)
        weights = [None] * cohort.places if self._by is None else np.asarray(getattr(cohort, self._by)).tolist()
        letters = [
            Letter(int(k), int(ids[k]), self._header(method, int(ids[k]), weights[k]), bodies[k if own else 0])
            for k in np.flatnonzero(cohort.active)
        ]
        expected = first_reply.eval_shape(self.job, self.algorithm, messages[0], name=method)
        replies, again = self._exchange(letters, expected, np.asarray(losses))
        decoded = {place: decode(reply, self.job.start) for place, reply in replies.items()}
        headers = [decoded[k][1] if k in decoded else {"queries": 0, "missed": 0} for k in range(cohort.places)]
        queries, missed = (jnp.asarray([header[name] for header in headers], "int32") for name in ("queries", "missed"))
        arrived = np.isin(np.arange(cohort.places), list(decoded))
        self.delivery = Delivery(jnp.asarray(arrived), jnp.asarray(again, "int32"))
        reply = stacked({place: tree for place, (tree, _) in decoded.items()}, cohort.places, expected)
        if self._by is not None:
            used = arrived & (self._repeats | (np.asarray(losses) == 0))
            reply = jax.tree.map(lambda stack: LazyStack([np.asarray(stack.sum(used.astype(float)))], stack.like), reply)
        return Done(reply, None, queries, missed)

    @property
    def _repeats(self) -> bool:
        return self.job.faults is not None and self.job.faults.repeats

    def _header(self, method: str, number: int, weight: float | None) -> bytes:
        marks = {"base": self.versions[number].tolist(), "kept": self.kept[number].tolist(), "made": self._mark()}
        mine = {} if weight is None else {"weight": weight}
        return json.dumps({"method": method, **marks, **mine}).encode()

    def _mark(self) -> Version:
        return int(self.round), int(self.state.exchanges)

    def _commit(self, cohort: Cohort, answered, states):
        self.versions[np.asarray(cohort.ids)[np.asarray(answered)]] = self._mark()


@jax.jit
def cohort_of(sampler: Sampler, state: PyTree, key, population: Population) -> Cohort:
    """Draw a cohort. A loop in a draw would be compiled anew each time outside of a program that is kept."""
    return sampler.draw(state, key, population)


@partial(jax.jit, static_argnames=("name",))
def first_reply(job: Job, algorithm, message: PyTree, *, name: str) -> PyTree:
    """What client 0 replies to its first message. It is never run: compiled, its shapes are worked out once for all rounds."""
    state, number = algorithm.client_state(job.start), jnp.zeros((), "int32")
    client = JaxClient(number, jax.random.key(0), state, job.storage.oracle(number))
    return finished(local_method(algorithm, name, job.start)(client, message), state).reply


def stacked(trees: dict[int, PyTree], places: int, like: PyTree) -> PyTree:
    """Return the `trees` by place, which are shaped as in `like`, as one tree of stacks."""
    shapes, structure = jax.tree.flatten(like)
    leaves = {place: jax.tree.leaves(tree) for place, tree in trees.items()}
    parts = ([leaves[k][j] if k in leaves else None for k in range(places)] for j in range(len(shapes)))
    return jax.tree.unflatten(structure, [LazyStack(*pair) for pair in zip(parts, shapes, strict=True)])


def only_sums(traced: CompiledAsk, algorithm) -> dict[str, Weight]:
    """Return what the one sum at each call weighs replies by; `UserError` if `algorithm`, as it was `traced`, needs more."""
    return weights_of(traced.found.values(), traced.uses, type(algorithm).__name__, "aggregation = 'plain'")


judged = partial(jax.jit, static_argnames="metrics")(judge)


class Wired(ABC):
    """Plays rounds of one algorithm on the host, whose clients are elsewhere."""

    def __init__(self, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        self.job, self.algorithm, self.every = job, algorithm, every
        traced = survey(job, algorithm)
        self.sites = (*traced.found.values(),)
        self.sums = only_sums(traced, algorithm) if job.aggregation == "sum" else None
        known = asked_for(metrics)
        # All clients' accuracies are their replies to the question for the accuracy.
        self.each = "accuracies" in known
        self.asked = tuple(dict.fromkeys("accuracy" if name == "accuracies" else name for name in known))
        self.versions = np.tile(np.asarray(FIRST), (job.population.count, 1))
        self.metrics = metrics

    def play(self, asks: Callable[..., EngineAsk], progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play on until `rows` more trace rows are written or the round `limit` is reached."""
        entries = []
        for _ in range(rows):
            many = 0 if progress.over else min(self.every, limit - int(progress.round))
            for _ in range(many):
                progress = play_round(asks, self.job, self.algorithm, self.sites, progress)
            progress, entry = self._look(progress)
            entries.append(entry)
        return progress, jax.tree.map(lambda *values: np.stack([np.asarray(value) for value in values]), *entries)

    def _look(self, progress: Progress) -> tuple[Progress, dict]:
        """Do as `progress.look`, without a copy of the parameters, which may be a large model."""
        x = self.algorithm.output(progress.server)
        good, quality, values = judged(
            self.job, self.algorithm, self.metrics, progress.server, progress.quality, self._measured(x)
        )
        if good:
            progress = progress._replace(good=x)
        elif progress.failed < 0:
            progress = progress._replace(failed=progress.round)
        progress = ended(self.job, progress._replace(quality=quality), values)
        return progress, row(progress, values)

    @abstractmethod
    def _everyone(self, header: bytes, body: bytes) -> dict[int, Buffer]:
        """Return what the clients, by number, reply when they are asked to measure."""

    def _measured(self, x: PyTree) -> dict | None:
        """Return what the clients tell of f, if the server cannot know it: the mean over those who answer."""
        if not self.job.storage.problem.remote:
            return None
        header = json.dumps({"measure": self.asked}).encode()
        replies = self._everyone(header, encode(x, self.job.start)) if self.asked else {}
        shares = np.asarray(self.job.population.shares)[list(replies)]
        parts = [decode(reply, self.job.start)[0] for reply in replies.values()]
        if not parts:
            return {}
        means = jax.tree.map(lambda *leaves: np.tensordot(shares / shares.sum(), np.stack(leaves), 1), *parts)
        return means | ({"accuracies": np.stack([part["accuracy"] for part in parts])} if self.each else {})
