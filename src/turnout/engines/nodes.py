"""The nodes engine: every client is an object of its own, with its own copy of everything; only bytes cross."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from turnout.engines.client_runner import Own
from turnout.engines.inputs import Job
from turnout.engines.messaging import FIRST, Letter, Node, Wired, WiredAsk
from turnout.engines.state import Progress, begin
from turnout.problems.base import Problem
from turnout.problems.oracles.base import Oracle

HERE = b"the same process"
"""In the place of a message's digest: no request comes again once its exchange is over."""


class Crew:
    """Does nodes' tasks: several at a time where their oracles are of one type that can, and in turn once they could not."""

    def __init__(self, nodes: list[Node]):
        kinds = {type(node.held.oracle) if isinstance(node.held, Own) else Oracle for node in nodes}
        self.run_parallel = kinds.pop().run_parallel if len(kinds) == 1 else Oracle.run_parallel

    def done(self, tasks: list[Callable]) -> list:
        """Return what the tasks return."""
        found = self.run_parallel(tasks)
        if found is None:
            self.run_parallel = Oracle.run_parallel
            found = [task() for task in tasks]
        return found


class NodesAsk(WiredAsk):
    """Answers `ask` by handing bytes to nodes, whose replies arrive in an order of their own."""

    def __init__(self, nodes: list[Node], crew: Crew, arrival: np.random.Generator, *arguments):
        super().__init__(*arguments)
        self.nodes, self.crew, self.arrival = nodes, crew, arrival

    def _exchange(self, letters, expected, losses):
        letters = [letters[k] for k in self.arrival.permutation(len(letters))]
        tasks = [partial(self._answer, letter, int(losses[letter.place])) for letter in letters]
        replies = dict(zip((letter.place for letter in letters), self.crew.done(tasks), strict=True))
        return replies, np.zeros_like(losses)

    def _answer(self, letter: Letter, lost: int) -> bytes:
        """Return the last reply of one client, `lost` of which were lost before."""
        node, reply = self.nodes[letter.number], b""
        # A lost reply was computed all the same; whether it is asked for again is the policy's affair.
        for _ in range(1 + lost):
            reply = node.answer(letter.header, letter.body, HERE)
        # The next reply takes its memory, which is dear where it is much.
        node.forget()
        return reply


class Nodes(Wired):
    """Plays rounds of one algorithm with separate nodes in this process; slower than `Compiled`, and the same run."""

    def __init__(self, problem: Problem, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        super().__init__(job, algorithm, metrics, every)
        shared = algorithm, job.start, job.seeds
        options = {"protection": job.protection, "mixed": job.storage.mixed}
        self.nodes = [Node(i, problem.client(i), *shared, **options) for i in range(problem.clients)]
        # No state is gone back to.
        self._asks = partial(
            NodesAsk, self.nodes, Crew(self.nodes), np.random.default_rng(0), self.versions, self.versions, self.sums
        )

    def begin(self) -> Progress:
        """Return the state before the first round."""
        return self._with_states(begin(self._asks, self.job, self.algorithm, self.sites))

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play on until `rows` more trace rows are written or the round `limit` is reached."""
        for i, node in enumerate(self.nodes):
            node.go_on_from(jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), progress.clients))
        self.versions[:] = FIRST
        progress, table = self.play(self._asks, progress, limit, rows)
        return self._with_states(progress), table

    def _with_states(self, progress: Progress) -> Progress:
        """Return the progress with the nodes' private states, stacked [n, ...]."""
        states = [node.state(tuple(version)) for node, version in zip(self.nodes, self.versions.tolist(), strict=True)]
        clients = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *states)
        return progress._replace(clients=clients)

    def _everyone(self, header, body):
        return {node.number: node.measure(header, body) for node in self.nodes}
