"""The compiled engine where the clients' rows and private states are not in memory."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from turnout.core.host_calls import registered
from turnout.engines.compiled import Compiled, advance
from turnout.engines.fetched_ask import FetchedAsk
from turnout.engines.inputs import Job
from turnout.engines.state import Progress, begin
from turnout.engines.state_file import StateFile


class FetchedEngine(Compiled):
    """Plays rounds of one algorithm in one jitted program, which has the rows and states of each cohort read and written.

    Args:
        folder: Where the private states of clients are kept; None for a folder that lives as long as the engine.
        job: Inputs of the run.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics in a trace row.
        every: Rounds between two trace rows.
    """

    def __init__(self, folder: Path | None, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        super().__init__(job, algorithm, metrics, every)
        state = jax.tree.map(jnp.asarray, algorithm.client_state(job.start))
        like = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(state)]
        self.states = StateFile(folder, like, job.population.count) if like else None
        if self.states is not None:
            number = jnp.asarray(registered(self.states, self))
            self.job = jax.tree_util.tree_map_with_path(lambda path, leaf: number if _is_states(path) else leaf, job)

    def begin(self):
        return jax.block_until_ready(_begin(self.job, self.algorithm, sites=self.sites))

    def advance(self, progress, limit, rows):
        options = {"sites": self.sites, "metrics": self.metrics}
        progress, table = _advance(self.job, self.algorithm, progress, limit, rows, self.every, **options)
        return progress, jax.tree.map(lambda column: np.asarray(column)[:rows], table)

    def saved(self, progress):
        kept = super().saved(progress)
        return kept if self.states is None else kept._replace(clients=self.states.saved())

    def restored(self, saved):
        if self.states is None:
            return super().restored(saved)
        self.states.restore(saved.clients)
        return super().restored(saved._replace(clients=np.asarray(self.states.version, np.int32)))


def _is_states(path: tuple) -> bool:
    return [getattr(key, "name", "") for key in path] == ["storage", "states"]


_advance = partial(jax.jit, static_argnames=("sites", "metrics"), donate_argnames=("progress",))(
    partial(advance, asks=FetchedAsk)
)


@partial(jax.jit, static_argnames=("sites",))
def _begin(job: Job, algorithm, *, sites) -> Progress:
    return begin(FetchedAsk, job, algorithm, sites)
