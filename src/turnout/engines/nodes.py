"""The nodes engine: every client is an object of its own, with its own copy of everything; only bytes cross."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from turnout.engines.job import Job
from turnout.engines.progress import Progress, begin
from turnout.engines.wired import FIRST, Node, Wired, WiredAsk
from turnout.problem import Problem

HERE = b"the same process"
"""In the place of a message's digest: no request comes again once its exchange is over."""


class NodesAsk(WiredAsk):
    """Answers `ask` by handing bytes to nodes, whose replies arrive in an order of their own."""

    def __init__(self, nodes: list[Node], arrival: np.random.Generator, *arguments):
        super().__init__(*arguments)
        self.nodes, self.arrival = nodes, arrival

    def _exchange(self, letters, expected, losses):
        replies = {}
        for k in self.arrival.permutation(len(letters)):
            place, number, header, body = letters[k]
            node = self.nodes[number]
            # A lost reply was computed all the same; whether it is asked for again is the policy's affair.
            for _ in range(1 + int(losses[place])):
                replies[place] = node.answer(header, body, HERE)
            # The next reply takes its memory, which is dear where it is much.
            node.forget()
        return replies, np.zeros_like(losses)


class Nodes(Wired):
    """Plays rounds of one algorithm with separate nodes in this process; slower than `Compiled`, and the same run."""

    def __init__(self, problem: Problem, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        super().__init__(job, algorithm, metrics, every)
        shared = algorithm, job.start, job.seeds
        options = {"protection": job.protection, "mixed": job.storage.mixed}
        self.nodes = [Node(i, problem.client(i), *shared, **options) for i in range(problem.clients)]
        # No state is gone back to.
        self._asks = partial(NodesAsk, self.nodes, np.random.default_rng(0), self.versions, self.versions, self.sums)

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
