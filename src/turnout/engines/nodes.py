"""The nodes engine: every client is an object of its own, with its own copy of everything; only bytes cross."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.engines.asking import EngineAsk, finished
from turnout.engines.client import JaxClient, RowsOracle
from turnout.engines.compiled import discover
from turnout.engines.job import Job
from turnout.engines.progress import Progress, begin, look, play_round
from turnout.exchange import Done, local_method, opened
from turnout.problem import Problem
from turnout.rows import row_count, take
from turnout.seeds import Seeds
from turnout.wire import copy_leaves, decode, encode


class Node:
    """One client: it holds its rows, its private state and its own copy of the algorithm, and answers requests in bytes.

    A new state is kept aside until the server says that it used the reply; a request seen before gets the same reply again.
    """

    def __init__(self, number: int, problem: Problem, algorithm, start: PyTree, seeds: Seeds):
        self.number, self.start = number, copy_leaves(start)
        self.algorithm, self.seeds = copy_leaves(algorithm), copy_leaves(seeds)
        # Sizes are rounded up to powers of two, so that clients share compiled programs.
        size = row_count(problem.rows)
        places = np.arange(1 << (size - 1).bit_length())
        self.problem = copy_leaves(replace(problem, rows=take(problem.rows, np.minimum(places, size - 1))))
        self.weights = np.where(places < size, 1 / size, 0)
        self.state = jax.tree.map(np.asarray, self.algorithm.client_state(self.start))
        self._last, self._reply, self._new_state = None, b"", None

    def answer(self, request: bytes) -> bytes:
        """Run the local method that the request names on the message it carries."""
        message, header = decode(request, self.start)
        exchange = header["round"], header["exchange"]
        if (*exchange, header["method"]) != self._last:
            key = jax.random.fold_in(self.seeds.exchange(*exchange), self.number)
            mine = self.algorithm, self.problem, self.start, self.weights, self.number, self.state
            done = _local(*mine, key, message, name=header["method"])
            self._last, self._new_state = (*exchange, header["method"]), jax.tree.map(np.asarray, done.state)
            self._reply = encode(done.reply, self.start, {"queries": int(done.queries), "missed": int(done.missed)})
        return self._reply

    def commit(self, round: int, exchange: int) -> None:
        """Keep the state that the exchange made, now that its reply was used."""
        if self._last is not None and (round, exchange) == self._last[:2]:
            self.state = self._new_state


@partial(jax.jit, static_argnames=("name",))
def _local(algorithm, problem, start, weights, number, state, key, message, *, name) -> Done:
    # Sparse rows become a batch here, where their number is known.
    rows = take(problem.rows, jnp.arange(weights.size))
    oracle = RowsOracle(problem, rows, weights, jnp.sum(weights > 0, dtype="int32"))
    client = JaxClient(jnp.asarray(number, "int32"), key, state, oracle)
    return finished(local_method(algorithm, name, start)(client, message), state)


class NodesAsk(EngineAsk):
    """Answers `ask` by sending bytes to nodes, whose replies arrive in an order of their own."""

    def __init__(self, nodes: list[Node], arrival: np.random.Generator, *arguments):
        super().__init__(*arguments)
        self.nodes, self.arrival = nodes, arrival

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
        exchange = {"round": int(self.round), "exchange": int(self.state.exchanges)}
        own, write = opened(jax.tree.map(np.asarray, message))
        messages = [write(jax.tree.map(lambda a, k=k: a[k], own)) for k in range(cohort.places if own else 1)]
        requests = [encode(message, self.job.start, {"method": method, **exchange}) for message in messages]
        ids, losses = np.asarray(cohort.ids), np.asarray(losses)
        places = np.flatnonzero(cohort.active)
        arrived = {}
        for place in self.arrival.permutation(places):
            # A lost reply was computed all the same; whether it is asked for again is the policy's affair.
            for _ in range(1 + int(losses[place])):
                reply = self.nodes[ids[place]].answer(requests[place if own else 0])
            arrived[place] = decode(reply, self.job.start)
        empty = self._empty_reply(method, messages[0]), {"queries": 0, "missed": 0}
        values, headers = zip(*(arrived.get(k, empty) for k in range(cohort.places)), strict=True)
        queries, missed = (jnp.asarray([header[name] for header in headers], "int32") for name in ("queries", "missed"))
        stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *values)
        return Done(stacked, None, queries, missed)

    def _commit(self, cohort, answered, states):
        for i in np.asarray(cohort.ids)[np.asarray(answered)]:
            self.nodes[i].commit(int(self.round), int(self.state.exchanges))

    def _empty_reply(self, method, message) -> PyTree:
        node = self.nodes[0]
        key = jax.random.key(0)
        arguments = (node.algorithm, node.problem, node.start, node.weights, 0, node.state, key, message)
        shapes = jax.eval_shape(partial(_local, name=method), *arguments).reply
        return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


class Nodes:
    """Plays rounds of one algorithm with separate nodes in this process; slower than `Compiled`, and the same run."""

    def __init__(self, job: Job, problem: Problem, algorithm, metrics: tuple[str, ...], every: int):
        self.job, self.algorithm, self.metrics, self.every = job, algorithm, metrics, every
        self.sites = discover(job, algorithm)
        self.nodes = [Node(i, problem.client(i), algorithm, job.start, job.seeds) for i in range(problem.clients)]
        asks = partial(NodesAsk, self.nodes, np.random.default_rng(0))
        self._round = partial(play_round, asks, job, algorithm, self.sites)
        self._begin = partial(begin, asks, job, algorithm, self.sites)
        self._look = jax.jit(partial(look, job, algorithm, metrics))

    def begin(self) -> Progress:
        """Return the state before the first round."""
        return self._with_states(self._begin())

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play on until `rows` more trace rows are written or the round `limit` is reached."""
        for i, node in enumerate(self.nodes):
            node.state = jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), progress.clients)
        entries = []
        for _ in range(rows):
            many = min(self.every, limit - int(progress.round)) if progress.failed < 0 else 0
            for _ in range(many):
                progress = self._round(progress)
            progress, entry = self._look(progress)
            entries.append(entry)
        table = jax.tree.map(lambda *values: np.stack([np.asarray(value) for value in values]), *entries)
        return self._with_states(progress), table

    def _with_states(self, progress: Progress) -> Progress:
        """Return the progress with the nodes' private states, stacked [n, ...]."""
        states = [node.state for node in self.nodes]
        clients = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *states)
        return progress._replace(clients=clients)
