"""The compiled engine: a run is one jitted loop over rounds, and a cohort is a `vmap` axis.

`Compiled` plays rounds through `advance`, a loop over trace rows around a loop over rounds. A survey finds the call sites
beforehand, so that counters have a fixed shape.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from turnout.core.compiling import program
from turnout.engines.base import Engine
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.inputs import Job
from turnout.engines.reply_usage import survey
from turnout.engines.state import Progress, begin, play_round, trace_row

PLACES = 1024
"""Trace rows that one call of the compiled program can write."""


class Compiled(Engine):
    """Plays rounds of one algorithm in one jitted program, which a new seed or hyper-parameter does not recompile.

    Args:
        job: Inputs of the run.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics in a trace row.
        every: Rounds between two trace rows.
    """

    asks: type[CompiledAsk] = CompiledAsk
    """Makes the `ask` of a round."""

    def __init__(self, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        self.job, self.algorithm, self.metrics, self.every = job, algorithm, metrics, every
        self.sites = survey(job, algorithm).sites

    def begin(self) -> Progress:
        """Return the state before the first round."""
        return _begin(self.job, self.algorithm, sites=self.sites, asks=self.asks)

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play until `rows` more trace rows are written or the round `limit` is reached; `progress` is donated."""
        options = {"sites": self.sites, "metrics": self.metrics, "asks": self.asks}
        progress, table = _advance(self.job, self.algorithm, progress, limit, rows, self.every, **options)
        return progress, jax.tree.map(lambda column: np.asarray(column)[:rows], table)


def advance(job: Job, algorithm, progress: Progress, limit, rows, every, *, sites, metrics, places=PLACES, asks=CompiledAsk):
    """Play until `rows` of the `places` rows of a table are filled, at multiples of `every`; return progress and table."""

    def one_round(_, progress):
        return play_round(asks, job, algorithm, sites, progress)

    def one_row(k, carry):
        progress, table = carry
        rounds = jnp.where(progress.over, 0, jnp.clip(limit - progress.round, 0, every - progress.round % every))
        progress = lax.fori_loop(0, rounds, one_round, progress)
        progress, row = trace_row(job, algorithm, metrics, progress)
        return progress, jax.tree.map(lambda column, value: column.at[k].set(value), table, row)

    _, row = jax.eval_shape(lambda: trace_row(job, algorithm, metrics, progress))
    table = jax.tree.map(lambda leaf: jnp.zeros((places, *leaf.shape), leaf.dtype), row)
    return lax.fori_loop(0, rows, one_row, (progress, table))


_advance = program(advance, static_argnames=("sites", "metrics", "asks"), donate_argnames=("progress",))


@partial(program, static_argnames=("sites", "asks"))
def _begin(job: Job, algorithm, *, sites, asks) -> Progress:
    # One program: its operations one by one take longer to compile.
    return begin(asks, job, algorithm, sites)
