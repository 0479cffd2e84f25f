"""An algorithm as a function of drjax: rounds are broadcasts, maps and sums at placed clients."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.accounting.counters import to_ledger
from turnout.accounting.ledger import Ledger, Site
from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.core.local_methods import local_method
from turnout.core.messages import Each
from turnout.core.records import record
from turnout.core.replies import Replies
from turnout.core.tree import on_device
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.exchange.strong_types import completed
from turnout.engines.inputs import Job
from turnout.engines.reply_usage import survey
from turnout.engines.state import Progress, begin, play_round
from turnout.problems.base import Problem
from turnout.problems.grouped import Grouped
from turnout.problems.storage.jax_client import JaxClient, JaxOracle
from turnout.problems.storage.layout import Padded, is_sparse, padded
from turnout.runs.options import RunOptions
from turnout.runs.setup import fit, inputs_of

PLACEMENT = "clients"
"""The name of the placement, and of the axis of a mesh over which drjax spreads it."""


class MapReduce(NamedTuple):
    """An algorithm in the primitives of drjax; see `turnout.export.drjax`.

    Args:
        round: A pure function of the state before a round and the clients' data, which returns the state after it.
        state: The state before the first round: `state.server` is the server's, `state.clients` has the clients' [n, ...].
        data: The clients' rows [n, s, ...], padded to the size s of the largest client, and the share of each row in the mean
            over its client's rows [n, s], 0 for padding.
        parameters: Returns the parameters that a state has found.
        sites: The call sites that the counters of a state count.

    Examples:
        >>> import turnout as t
        >>> made = t.export.drjax(t.Gd(t.Full(), lr=0.1), t.Quadratic.random(4, 2))  # doctest: +SKIP
        >>> made.parameters(made.round(made.state, made.data))  # doctest: +SKIP
    """

    round: Callable[[Progress, tuple], Progress]
    state: Progress
    data: tuple[PyTree, Any]
    parameters: Callable[[Progress], PyTree]
    sites: tuple[Site, ...]

    def ledger(self, state: Progress) -> Ledger:
        """Return what the rounds up to `state` exchanged."""
        return to_ledger(self.sites, np.asarray(state.counts))


def drjax(algorithm: Algorithm, problem: Problem, rounds: int = 100, seed: int = 0, start: PyTree = None) -> MapReduce:
    """Return an algorithm as a JAX function round(state, data) -> state in the primitives of drjax.

    Each exchange with a cohort S of m places is a broadcast of the message to m clients, a map of the local method over them, and
    sums of weighted replies; the rows and states of S are gathered from those of all n clients. A round may be compiled
    (`jax.jit`), and differentiated forwards or, where the clients' loops have lengths that are known before the run, backwards.

    The numbers are those of `turnout.run` with the same seed, up to rounding, in the precision that JAX is in: for 64 bits call
    it, and `round`, with `jax_enable_x64`.

    Args:
        algorithm: The algorithm.
        problem: The problem in JAX, with its clients' rows in memory.
        rounds: Number of rounds to which schedules and samplers are fitted.
        seed: Seed of all random draws.
        start: Initial parameters; default: the problem's.

    Raises:
        UserError: drjax is not installed, the rows are sparse, or the algorithm does not go with the problem.

    Examples:
        >>> import jax, turnout as t
        >>> problem = t.Quadratic.random(clients=10, dimension=2, seed=0)
        >>> fedavg = t.export.drjax(t.FedAvg(t.Nice(3), lr=0.05, steps=3), problem)  # doctest: +SKIP
        >>> state = jax.jit(fedavg.round)(fedavg.state, fedavg.data)  # doctest: +SKIP
    """
    _programs(1)
    if any(map(is_sparse, jax.tree.leaves(problem.rows, is_leaf=is_sparse))):
        raise UserError("drjax maps over arrays of one shape for each client, and sparse rows have none: give dense rows")
    if isinstance(problem, Grouped) or algorithm.model_groups:
        raise UserError("a model with groups is not carried to drjax: give the whole model to an algorithm without groups")
    precision = "double" if jnp.result_type(float) == jnp.float64 else "single"
    options = RunOptions(rounds, seed, precision=precision, start=start)
    fitted = fit(algorithm, problem, options, compiled=True)
    job, bound = inputs_of(fitted.algorithm, problem, options, precision, (), None, cells=None)
    storage = padded(problem.without_clients())
    rows, weight = storage.problem.rows, storage.weight
    if weight is None:
        n, size = jax.tree.leaves(rows)[0].shape[:2]
        weight = np.full((n, size), 1 / size)
    kind = jnp.result_type(float)
    data = jax.tree.map(lambda leaf: on_device(leaf, kind if jnp.issubdtype(leaf.dtype, jnp.floating) else None), (rows, weight))
    job = _with(replace(job, storage=storage), data)
    sites = survey(job, bound).sites
    state = jax.jit(partial(begin, MapReduceAsk, job, bound, sites))()
    return MapReduce(partial(_round, job, bound, sites), state, data, lambda state: bound.output(state.server), sites)


def _with(job: Job, data: tuple[PyTree, Any]) -> Job:
    """Return the inputs of a run with other rows, and shares of rows, of the clients."""
    rows, weight = data
    return replace(job, storage=replace(job.storage, problem=replace(job.storage.problem, rows=rows), weight=weight))


def _round(job: Job, algorithm: Algorithm, sites: tuple[Site, ...], state: Progress, data: tuple[PyTree, Any]) -> Progress:
    return play_round(MapReduceAsk, _with(job, data), algorithm, sites, state)


class MapReduceAsk(CompiledAsk):
    """Answers `ask` while a round is traced, by drjax's broadcast, map and sum over the places of a cohort."""

    def _run_clients(self, cohort, method, message, losses):
        key = self.job.seeds.exchange(self.round, self.state.exchanges)
        run, storage = local_method(self.algorithm, method, self.job.start), cast(Padded, self.job.storage)

        def run_one(message, i, active, state, rows, weight):
            oracle = JaxOracle(storage.problem, rows, weight, jnp.sum(weight > 0, dtype="int32"))
            done = run(JaxClient(i, jax.random.fold_in(key, i), state, oracle, active), message)
            return completed(done, state)

        here = jax.tree.map(lambda leaf: leaf[cohort.ids], (self.state.clients, storage.problem.rows, storage.weight))
        exchanged, _ = _programs(cohort.places)
        return exchanged(run_one, message, (cohort.ids, cohort.active, *here))

    def _collected(self, replies):
        return MappedReplies(replies.held, replies.cohort, replies.answered, replies.everyone, replies.losses)


@record
class MappedReplies(Replies):
    """Replies whose weighted sums are drjax's."""

    def _weighted_sum(self, weight):
        def weighted(answered, weight, reply):
            # An empty place may hold any value, NaN included.
            return jax.tree.map(lambda leaf: weight.astype(leaf.dtype) * jnp.where(answered, leaf, 0), reply)

        _, summed = _programs(self.cohort.places)
        return summed(weighted, (self.answered, jnp.where(self.answered, weight, 0), self.held))


@cache
def _programs(places: int) -> tuple[Callable, Callable]:
    """Return the programs of drjax over a number of places: an exchange, and the sum of a function of placed values."""
    try:
        import drjax  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UserError(f"turnout.export.drjax needs drjax ({error}): pip install drjax") from None

    def exchanged(run_one, message, placed):
        def place(part):
            return part.values if isinstance(part, Each) else drjax.broadcast(part)

        message = jax.tree.map(place, message, is_leaf=lambda part: isinstance(part, Each))
        return drjax.map_fn(run_one, (message, *placed))

    def summed(weighted, placed):
        return drjax.reduce_sum(drjax.map_fn(weighted, placed))

    at_clients = drjax.program(**{PLACEMENT: places})
    return at_clients(exchanged), at_clients(summed)
