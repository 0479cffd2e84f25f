"""The nodes engine: each client is an object of its own in this process, and exchanges only bytes with the server."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError, caution
from turnout.core.schema import OTHER_SCHEMA
from turnout.engines.client_runner import HostClientRunner
from turnout.engines.encryption import SumKey, new_key
from turnout.engines.inputs import Job
from turnout.engines.messaging import MessageAsk, MessageEngine, Request
from turnout.engines.node import Node
from turnout.engines.request import FIRST, Version
from turnout.engines.state import Progress, begin
from turnout.problems.base import Problem
from turnout.problems.oracles.base import NotParallel

NO_DIGEST = b"the same process"
"""Stands for the digest of a message: no request is repeated after its exchange."""


class TaskRunner:
    """Runs tasks of nodes, together if all oracles have one type that has a way, and in turn once all its ways have failed."""

    def __init__(self, nodes: list[Node]):
        first, *others = [node.runner.oracle if isinstance(node.runner, HostClientRunner) else None for node in nodes]
        together = first is not None and all(type(one) is type(first) for one in others)
        self.ways = [*(first.ways_together(others) if together else []), _in_turn]

    def run(self, tasks: list[Callable]) -> list:
        """Return what the tasks return; a `Caution` says why a way that is slower has to be taken."""
        why = ""
        while True:
            try:
                results = self.ways[0](tasks)
            except NotParallel as error:
                why = why or str(error)
                del self.ways[0]
            else:
                if why:
                    caution(why)
                return results


def _in_turn(tasks: list[Callable]) -> list:
    return [task() for task in tasks]


class NodesAsk(MessageAsk):
    """Answers `ask` by requests to nodes, whose replies arrive in random order."""

    def __init__(self, nodes: list[Node], runner: TaskRunner, arrival: np.random.Generator, *arguments):
        super().__init__(*arguments)
        self.nodes, self.runner, self.arrival = nodes, runner, arrival

    def _exchange(self, requests, expected, losses):
        requests = [requests[k] for k in self.arrival.permutation(len(requests))]
        tasks = [partial(self._answer, request, int(losses[request.place])) for request in requests]
        replies = dict(zip((request.place for request in requests), self.runner.run(tasks), strict=True))
        return replies, np.zeros_like(losses)

    def _decrypt(self, clients, header, body, expected):
        return self.nodes[clients[0]].decrypt(header, body), 0

    def _answer(self, request: Request, lost: int) -> bytes:
        """Return the last reply of one client, `lost` of which were lost before."""
        node, reply = self.nodes[request.number], b""
        # A lost reply was computed all the same.
        for _ in range(1 + lost):
            reply = node.answer(request.header, request.body, NO_DIGEST)
        # Replies of large models would fill the memory.
        node.forget()
        return reply


class Nodes(MessageEngine):
    """Plays rounds of one algorithm with separate nodes in this process: the same run as `Compiled`'s, but slower.

    Args:
        problem: Objective and clients.
        job: Inputs of the run.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics in a trace row.
        every: Rounds between two trace rows.
    """

    keeps_apart = False

    def __init__(self, problem: Problem, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        super().__init__(job, algorithm, metrics, every)
        shared = algorithm, job.start, job.seeds
        sum_key = SumKey(new_key(), problem.clients) if job.aggregation == "encrypted" else None
        options = {"protection": job.protection, "mixed": job.storage.mixed, "sum_key": sum_key}
        self.nodes = [Node(i, problem.client(i), *shared, **options) for i in range(problem.clients)]
        first = next((node for node in self.nodes if node.schema), None)
        for node in self.nodes:
            if first is not None and node.schema not in ("", first.schema):
                raise UserError(f"client {node.number} has other classes or features than client {first.number}: {OTHER_SCHEMA}")
        runner, arrival = TaskRunner(self.nodes), np.random.default_rng(0)
        # Only the states in use have to stay available.
        self._asks = partial(NodesAsk, self.nodes, runner, arrival, self.versions, self.versions, self.outliers, self.sums)

    def begin(self) -> Progress:
        """Return the state before the first round."""
        return self._with_states(begin(self._asks, self.job, self.algorithm, self.sites))

    def saved_model(self, problem: Problem, x: PyTree) -> PyTree:
        """Return what the file holds; a `Caution` where clients have buffers of their own, which no single file can hold."""
        oracles = [node.runner.oracle for node in self.nodes if isinstance(node.runner, HostClientRunner)]
        if not oracles:
            return problem.saved(x)
        whole = oracles[0].saved(x)
        told = ((name, own) for one in oracles for name, own in one.kept().items() if name in whole)
        name = next((name for name, own in told if not np.array_equal(own, whole[name])), None)
        if name is not None:
            caution(
                f"clients have buffers of their own, such as {name}: the file has those of one, so that its accuracy is not that "
                "of the trace; let clients share a module, or keep no buffers that training changes"
            )
        return whole

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play until `rows` more trace rows are written or the round `limit` is reached.

        Args:
            progress: State of the run.
            limit: Number of the last round.
            rows: Number of trace rows to write.
        """
        for i, node in enumerate(self.nodes):
            node.reset(jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), progress.clients))
        self.versions[:] = FIRST
        for node, version, state in self._in_flight(progress):
            node.states[version] = state
        progress, table = self.play(self._asks, progress, limit, rows)
        return self._with_states(progress), table

    def _with_states(self, progress: Progress) -> Progress:
        """Return the progress with the nodes' private states, stacked [n, ...]."""
        progress = progress._replace(clients=self._stacked())
        flight = progress.flight
        if flight is None:
            return progress
        held = jax.tree.map(np.array, flight.done.state)
        for place, (node, version, _) in zip(np.flatnonzero(flight.cohort.active), self._in_flight(progress), strict=True):
            jax.tree.map(lambda leaf, own, place=place: leaf.__setitem__(place, own), held, node.state(version))
        return progress._replace(flight=replace(flight, done=flight.done._replace(state=jax.tree.map(jnp.asarray, held))))

    def _stacked(self) -> PyTree:
        """Return the nodes' private states, stacked [n, ...]."""
        states = [node.state(tuple(version)) for node, version in zip(self.nodes, self.versions.tolist(), strict=True)]
        return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *states)

    def _in_flight(self, progress: Progress) -> list[tuple[Node, Version, PyTree]]:
        """Return the node of each request in flight, and the version and the state that it makes."""
        flight = progress.flight
        if flight is None:
            return []
        turns, ids = np.stack([flight.sent, flight.exchange], -1).tolist(), np.asarray(flight.cohort.ids).tolist()
        return [
            (self.nodes[ids[k]], tuple(turns[k]), jax.tree.map(lambda leaf, k=k: np.asarray(leaf[k]), flight.done.state))
            for k in np.flatnonzero(flight.cohort.active).tolist()
        ]

    def _clients(self, progress):
        return self._stacked() if self._personal and not self.job.storage.problem.remote else progress.clients

    def _model(self, x, statistics, prefix, i):
        if prefix != "test" or not self._personal:
            return super()._model(x, statistics, prefix, i)
        return self.nodes[i].model(x, statistics, self.nodes[i].state(tuple(self.versions[i].tolist())))

    def _everyone(self, requests):
        replies = {node.number: node.measure(*requests[node.number]) for node in self.nodes}
        for node in self.nodes:
            node.forget()
        return replies
