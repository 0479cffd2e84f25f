"""State of a run between rounds, and the steps that every engine takes from there."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from turnout.accounting.counters import no_counts
from turnout.accounting.ledger import Site
from turnout.codecs.coded import Coded
from turnout.core.tree import where
from turnout.engines.ask import EngineAsk, State
from turnout.engines.dual_gap import dual_gap
from turnout.engines.exchange.flight import Flight
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.flight_shape import no_requests
from turnout.engines.groups.evaluation import evaluated
from turnout.engines.groups.statistics import first_statistics
from turnout.engines.inputs import Job
from turnout.engines.metrics import EMPTY, derive, evaluate, healthy
from turnout.samplers.base import samplers_in
from turnout.samplers.diagnostics import Quality, shown, since_row, unjudged


class Progress(NamedTuple):
    """State of a run after a round.

    Args:
        server: The algorithm's state.
        samplers: State of each sampler.
        clients: Private states of the clients.
        counts: Counters of each call site.
        quality: How good the draws were, if metrics ask for it.
        round: Number of rounds played.
        good: The last parameters at which all metrics were finite.
        failed: Round of divergence, or -1.
        met: Round in which the target was met that ends the run, or -1.
        memories: The server's memory of compressed messages and replies, for each local method.
        flight: The requests in flight; None where there never are any.
        statistics: The statistics that the server averages, by name.
    """

    server: PyTree
    samplers: PyTree
    clients: PyTree
    counts: Any
    quality: Quality | None
    round: Any
    good: PyTree
    failed: Any
    met: Any
    memories: dict
    flight: Flight | None
    statistics: dict

    @property
    def over(self) -> Any:
        """Whether no further round is to be played."""
        return (self.failed >= 0) | (self.met >= 0)


def first_state(job: Job, algorithm, sites: tuple[Site, ...]) -> State:
    """Return an ask's state before the first round, the clients' stacked [n, ...].

    Args:
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
        sites: Call sites of the ledger.
    """
    n, zero = job.population.count, jnp.zeros((), "int32")
    client = algorithm.client_state(job.start)
    clients = job.storage.states_of_all(client)
    samplers = [sampler.start(job.population) for sampler in samplers_in(algorithm)]
    quality = unjudged(job.population) if job.judged else None
    memories = algorithm.memories(job.start, "server") if isinstance(algorithm, Coded) else {}
    memories = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n, *jnp.shape(leaf))), memories)
    statistics = first_statistics(algorithm)
    state = State(samplers, clients, no_counts(len(sites)), quality, zero, zero, memories=memories, statistics=statistics)
    return state._replace(flight=no_requests(job, algorithm, state))


def begin(asks: Callable[..., EngineAsk], job: Job, algorithm, sites: tuple[Site, ...]) -> Progress:
    """Return the progress before the first round.

    Args:
        asks: Makes the `ask` of a round.
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
        sites: Call sites of the ledger.
    """
    ask = asks(job, algorithm, jnp.zeros((), "int32"), first_state(job, algorithm, sites), sites)
    server = ask.start(job.start)
    first = Progress(
        server=server,
        samplers=ask.state.samplers,
        clients=ask.state.clients,
        counts=ask.state.counts,
        quality=ask.state.quality,
        round=jnp.zeros((), "int32"),
        good=delivered(algorithm.output(server), ask.state.statistics),
        failed=jnp.full((), -1, "int32"),
        met=jnp.full((), -1, "int32"),
        memories=ask.state.memories,
        flight=ask.state.flight,
        statistics=ask.state.statistics,
    )
    # The compiled engine donates its progress, so no two parts of it may share memory.
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), first)


def delivered(x: PyTree, statistics: dict) -> PyTree:
    """Return what a run has found: the parameters, and the statistics where the server averages some.

    Args:
        x: The parameters.
        statistics: The statistics, by name.
    """
    return {**x, **statistics} if statistics else x


def play_round(asks: Callable[..., EngineAsk], job: Job, algorithm, sites, progress: Progress) -> Progress:
    """Play one round.

    Args:
        asks: Makes the `ask` of a round.
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
        sites: Call sites of the ledger.
        progress: State of the run.
    """
    zero = jnp.zeros((), "int32")
    parts = ("samplers", "clients", "counts", "quality", "memories", "flight", "statistics")
    state = State(**{name: getattr(progress, name) for name in parts}, draws=zero, exchanges=zero)
    ask = asks(job, algorithm, progress.round + 1, state, sites)
    ask.refresh(algorithm.output(progress.server))
    server = strongly_typed(ask.play(progress.server))
    states = {name: getattr(ask.state, name) for name in parts}
    return progress._replace(server=server, round=progress.round + 1, **states)


def trace_row(job: Job, algorithm, metrics: tuple[str, ...], progress: Progress) -> tuple[Progress, dict]:
    """Return the progress, with the end of the run and the last good parameters up to date, and a trace row.

    Args:
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics.
        progress: State of the run.
    """
    own = progress.statistics, progress.clients
    good, quality, values = judge(job, algorithm, metrics, progress.server, progress.quality, *own)
    if "dual_gap" in metrics:
        values |= {"dual_gap": dual_gap(job, algorithm, progress.server, progress.clients, progress.round)}
    x = delivered(algorithm.output(progress.server), progress.statistics)
    progress = progress._replace(
        quality=quality,
        good=where(good, x, progress.good),
        failed=jnp.where(good | (progress.failed >= 0), progress.failed, progress.round),
    )
    return with_target(job, progress, values), as_row(progress, values)


def with_target(job: Job, progress: Progress, values: dict) -> Progress:
    """Return the progress with `met` up to date.

    Args:
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        progress: State of the run.
        values: Metrics by name.
    """
    if job.stop is None:
        return progress
    met = job.stop.met(values[job.stop.metric]) & ~progress.over
    return progress._replace(met=jnp.where(met, progress.round, progress.met))


def judge(
    job: Job,
    algorithm,
    metrics: tuple[str, ...],
    server: PyTree,
    quality: Quality | None,
    statistics: dict,
    clients: PyTree,
    measured: dict | None = None,
    apart: Mapping = EMPTY,
) -> tuple[Bool[Array, ""], Quality | None, dict]:
    """Return whether all metrics are finite, the quality of the draws from now on, and the metrics' values.

    What clients `measured` of f is not computed from the rows in `job`.

    Args:
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics.
        server: State of the server.
        quality: Quality of the draws; None where no metric needs it.
        statistics: The statistics that the server averages, by name.
        clients: What is kept of the clients' private states.
        measured: What the clients measured of f; None computes it from the rows in `job`.
        apart: What was measured of "test" or "held_out" where their rows are not in `job`.
    """
    x = algorithm.output(server)
    model = evaluated(job, algorithm, x, statistics, clients)
    if measured is None:
        values = evaluate(metrics, job.storage, job.optimum, model, job.test, job.held_out, apart)
    else:
        values = derive(metrics, measured, job.optimum, model, job.test, job.held_out, apart)
    if quality is not None:
        sampling = shown(quality, samplers_in(algorithm)[0])
        values |= {name: sampling[name] for name in metrics if name in sampling}
    return healthy(values, (x, statistics)), quality if quality is None else since_row(quality), values


def as_row(progress: Progress, values: dict) -> dict:
    """Return a trace row.

    Args:
        progress: State of the run.
        values: Metrics by name.
    """
    return {"round": progress.round, "counts": progress.counts, **values}
