"""Which of the counts that come with a reply tell nothing of a client's data."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.local_methods import local_method
from turnout.engines.cost_estimate.partial_eval import inlined, known
from turnout.engines.cost_estimate.simulate import unknown_data
from turnout.engines.inputs import Job
from turnout.problems.storage.jax_client import JaxClient


class PublicCounts:
    """Tells of each local method whether its numbers of queries and of unsolved problems follow from the request and from sizes.

    It traces the method, without running it: a count is public if it depends on neither rows nor private states.

    Args:
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
    """

    def __init__(self, job: Job, algorithm):
        self.job, self.algorithm = job, algorithm
        self._found: dict[tuple, tuple[bool, bool]] = {}

    def __call__(self, method: str, message: PyTree) -> tuple[bool, bool]:
        """Return whether the numbers of queries and of unsolved problems are public.

        Args:
            method: Address of the local method.
            message: The message.
        """
        leaves, structure = jax.tree.flatten(message)
        form = method, structure, tuple((np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in leaves)
        if form not in self._found:
            self._found[form] = self._traced(method, message)
        return self._found[form]

    def _traced(self, method: str, message: PyTree) -> tuple[bool, bool]:
        rows, with_rows = unknown_data(self.job)
        state = self.algorithm.client_state(self.job.start)
        program = inlined(jax.make_jaxpr(partial(self._counts, with_rows, method, message))(rows, state))
        queries, missed = known(program, [False] * len(program.jaxpr.invars))
        return queries, missed

    def _counts(self, with_rows, method: str, message: PyTree, rows, state):
        job, number = with_rows(rows), jnp.zeros((), "int32")
        client = JaxClient(number, jax.random.key(0), state, job.storage.oracle(number))
        done = local_method(self.algorithm, method, job.start)(client, message)
        return jnp.asarray(done.queries), jnp.asarray(done.missed)
