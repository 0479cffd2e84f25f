"""What engines share whose clients are reached by messages in bytes: the client's side, and an `ask` that plays on the host."""

from abc import abstractmethod
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from turnout.cohort import Cohort
from turnout.engines.asking import Delivery, EngineAsk, finished
from turnout.engines.client import JaxClient, RowsOracle
from turnout.engines.compiled import survey
from turnout.engines.job import Job
from turnout.engines.progress import Progress, look, play_round
from turnout.engines.uses import weights_of
from turnout.errors import UserError
from turnout.exchange import Done, Replies, Weight, local_method, opened
from turnout.privacy import Protection
from turnout.problem import Problem
from turnout.rows import row_count, take
from turnout.seeds import Seeds
from turnout.wire import copy_leaves, decode, encode

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
        problem: Problem,
        algorithm,
        start: PyTree,
        seeds: Seeds,
        states: MutableMapping | None = None,
        protection: Protection | None = None,
    ):
        self.number, self.start = number, copy_leaves(start)
        self.algorithm, self.seeds = copy_leaves(algorithm), copy_leaves(seeds)
        self.protection = copy_leaves(protection)
        # Sizes are rounded up to powers of two, so that clients share compiled programs.
        size = row_count(problem.rows)
        places = np.arange(1 << (size - 1).bit_length())
        self.problem = copy_leaves(replace(problem, rows=take(problem.rows, np.minimum(places, size - 1))))
        self.weights = np.where(places < size, 1 / size, 0)
        self.first = jax.tree.map(np.asarray, self.algorithm.client_state(self.start))
        self.states: MutableMapping = {} if states is None else states
        self._last, self._reply = b"", b""

    def state(self, version: Version) -> PyTree:
        """Return the private state of a version; `KeyError` where it is not kept."""
        return self.first if version == FIRST else self.states[version]

    def go_on_from(self, state: PyTree) -> None:
        """Take `state` as the first one, and forget what was since."""
        self.first, self.states, self._last = state, {}, b""

    def answer(self, request: bytes) -> bytes:
        """Run the local method that the request names on the message it carries."""
        if request != self._last:
            message, header = decode(request, self.start)
            made, base, kept = (tuple(header[name]) for name in ("made", "base", "kept"))
            key = jax.random.fold_in(self.seeds.exchange(*made), self.number)
            mine = self.algorithm, self.problem, self.start, self.weights, self.number, self.state(base)
            noise = None if self.protection is None else self.protection.key(header["method"], *made, self.number)
            done = run_locally(*mine, key, message, self.protection, noise, name=header["method"])
            for version in {*self.states} - {base, kept}:
                del self.states[version]
            self.states[made] = jax.tree.map(np.asarray, done.state)
            reply = weighed(done.reply, header["weight"]) if "weight" in header else done.reply
            self._reply = encode(reply, self.start, {"queries": int(done.queries), "missed": int(done.missed)})
            self._last = request
        return self._reply


def weighed(reply: PyTree, weight: float) -> PyTree:
    """Return a reply times its client's weight."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) * np.asarray(weight, leaf.dtype), reply)


@partial(jax.jit, static_argnames=("name",))
def run_locally(algorithm, problem, start, weights, number, state, key, message, protection, noise, *, name) -> Done:
    """Run the local method `name` of a client that has `problem` alone, and protect its reply with the key `noise`."""
    # Sparse rows become a batch here, where their number is known.
    rows = take(problem.rows, jnp.arange(weights.size))
    oracle = RowsOracle(problem, rows, weights, jnp.sum(weights > 0, dtype="int32"))
    client = JaxClient(jnp.asarray(number, "int32"), key, state, oracle)
    done = local_method(algorithm, name, start)(client, message)
    return finished(done if protection is None else protection.of_reply(done, noise), state)


class Letter(NamedTuple):
    """A request to the client `number` at `place` of a cohort."""

    place: int
    number: int
    request: bytes


class Summed(Replies):
    """Replies of which nothing is held but `held`, their sum weighed `by` lambda_i or lambda_i / p_i."""

    held: PyTree
    by: Weight

    def __init__(self, held: PyTree, by: Weight, cohort: Cohort, answered: Bool[Array, " m"]):
        for name, value in {"held": held, "by": by, "cohort": cohort, "answered": answered}.items():
            object.__setattr__(self, name, value)

    @property
    def values(self):
        raise UserError("the server gets only sums of replies, so that it cannot look at each: take aggregation = 'plain'")

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

    def _collected(self, replies):
        if self._by is None:
            return replies
        return Summed(jax.tree.map(lambda leaf: leaf[0], replies.values), self._by, replies.cohort, replies.answered)

    def _send(self, path, *rest):
        self._by = None if self.sums is None else self.sums[path]
        return super()._send(path, *rest)

    @abstractmethod
    def _exchange(
        self, letters: list[Letter], expected: PyTree, losses: Int[np.ndarray, " m"]
    ) -> tuple[dict[int, bytes], Int[np.ndarray, " m"]]:
        """Return the replies that arrived, by place, and how often each place was asked again."""

    @abstractmethod
    def _shapes(self, method: str, message: PyTree) -> PyTree:
        """Return the shapes and types of a reply."""

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
        own, write = opened(jax.tree.map(np.asarray, message))
        messages = [write(jax.tree.map(lambda a, k=k: a[k], own)) for k in range(cohort.places if own else 1)]
        ids = np.asarray(cohort.ids)
        weights = None if self._by is None else np.asarray(getattr(cohort, self._by))
        letters = [
            Letter(
                int(k),
                int(ids[k]),
                self._request(method, messages[k if own else 0], int(ids[k]), None if weights is None else float(weights[k])),
            )
            for k in np.flatnonzero(cohort.active)
        ]
        expected = self._shapes(method, messages[0])
        replies, again = self._exchange(letters, expected, np.asarray(losses))
        nothing = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), expected), {"queries": 0, "missed": 0}
        decoded = {place: decode(reply, self.job.start) for place, reply in replies.items()}
        values, headers = zip(*(decoded.get(k, nothing) for k in range(cohort.places)), strict=True)
        queries, missed = (jnp.asarray([header[name] for header in headers], "int32") for name in ("queries", "missed"))
        if weights is None:
            held = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *values)
        else:
            counted = [values[k] for k in sorted(decoded) if self._repeats or losses[k] == 0]
            held = jax.tree.map(lambda *leaves: jnp.asarray(sum(leaves))[None], nothing[0], *counted)
        arrived = np.isin(np.arange(cohort.places), list(decoded))
        self.delivery = Delivery(jnp.asarray(arrived), jnp.asarray(again, "int32"))
        return Done(held, None, queries, missed)

    @property
    def _repeats(self) -> bool:
        return self.job.faults is not None and self.job.faults.repeats

    def _request(self, method: str, message: PyTree, number: int, weight: float | None) -> bytes:
        marks = {"base": self.versions[number].tolist(), "kept": self.kept[number].tolist(), "made": self._mark()}
        mine = {} if weight is None else {"weight": weight}
        return encode(message, self.job.start, {"method": method, **marks, **mine})

    def _mark(self) -> Version:
        return int(self.round), int(self.state.exchanges)

    def _commit(self, cohort: Cohort, answered, states):
        self.versions[np.asarray(cohort.ids)[np.asarray(answered)]] = self._mark()


class Wired:
    """Plays rounds of one algorithm on the host, whose clients are elsewhere."""

    def __init__(self, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        self.job, self.algorithm, self.every = job, algorithm, every
        traced = survey(job, algorithm)
        self.sites, name = (*traced.found.values(),), type(algorithm).__name__
        self.sums = weights_of(self.sites, traced.uses, name, "aggregation = 'plain'") if job.aggregation == "sum" else None
        self.versions = np.tile(np.asarray(FIRST), (job.population.count, 1))
        self._look = jax.jit(partial(look, job, algorithm, metrics))

    def play(self, asks: Callable[..., EngineAsk], progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play on until `rows` more trace rows are written or the round `limit` is reached."""
        entries = []
        for _ in range(rows):
            many = min(self.every, limit - int(progress.round)) if progress.failed < 0 else 0
            for _ in range(many):
                progress = play_round(asks, self.job, self.algorithm, self.sites, progress)
            progress, entry = self._look(progress)
            entries.append(entry)
        return progress, jax.tree.map(lambda *values: np.stack([np.asarray(value) for value in values]), *entries)
