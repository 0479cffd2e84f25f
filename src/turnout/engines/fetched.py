"""The compiled engine where the clients' rows and private states are not in memory."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.host_calls import registered
from turnout.engines.compiled import Compiled
from turnout.engines.fetched_ask import FetchedAsk
from turnout.engines.groups.evaluation import personalised
from turnout.engines.inputs import Job
from turnout.engines.state_file import StateFile
from turnout.problems.storage.fetched import Fetched


class FetchedEngine(Compiled):
    """Plays rounds of one algorithm in one jitted program, which has the rows and states of each cohort read and written.

    Args:
        folder: Where the private states of clients are kept; None for a folder that lives as long as the engine.
        job: Inputs of the run.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics in a trace row.
        every: Rounds between two trace rows.
    """

    asks = FetchedAsk

    def __init__(self, folder: Path | None, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        super().__init__(job, algorithm, metrics, every)
        state = jax.tree.map(jnp.asarray, algorithm.client_state(job.start))
        like = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(state)]
        self.states = StateFile(folder, like, job.population.count) if like else None
        if self.states is not None:
            self.job = replace(job, storage=replace(cast(Fetched, job.storage), states=registered(self.states)))

    def begin(self):
        # Mistakes that calls of the program meet are told here.
        return jax.block_until_ready(super().begin())

    def saved(self, progress):
        kept = super().saved(progress)
        return kept if self.states is None else kept._replace(clients=self.states.saved())

    def own_leaves(self, progress, problem):
        states = self.states
        if states is None or not personalised(self.algorithm):
            return None
        first, structure = jax.tree.flatten(jax.tree.map(np.asarray, self.algorithm.client_state(self.job.start)))

        def state_of(i: int) -> PyTree:
            known, into = np.zeros(1, bool), [np.zeros((1, *leaf.shape), leaf.dtype) for leaf in first]
            states.read(np.array([i]), known, into)
            return jax.tree.unflatten(structure, [leaf[0] for leaf in into] if known[0] else first)

        return self._own_leaves(progress, problem, state_of)

    def restored(self, saved):
        if self.states is None:
            return super().restored(saved)
        self.states.restore(saved.clients)
        return super().restored(saved._replace(clients=np.asarray(self.states.version, np.int32)))
