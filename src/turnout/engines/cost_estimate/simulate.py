"""Monte Carlo simulation of the part of a run that does not depend on the clients' data, from one trace of it."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr
from jaxtyping import PyTree

from turnout.accounting.counters import no_counts
from turnout.accounting.ledger import Site
from turnout.core.compiling import program
from turnout.engines.ask import State
from turnout.engines.cost_estimate.partial_eval import evaluate, inlined, known
from turnout.engines.cost_estimate.tracing import Event, EventAsk
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.inputs import Job
from turnout.engines.state import first_state

NO_CHUNKS = 2**30
"""More places than any cohort has: nothing is computed, so no cohort is cut into chunks."""


class TracedRun(NamedTuple):
    """The start and one round of a run, as programs.

    Args:
        job: Inputs of the run.
        start: Program of (unknown inputs, seeds).
        round: Program of (unknown inputs, seeds, number of the round, states before it).
        states: Shapes of the states (server, samplers, clients) that both programs return first.
        events: Events of the start and of a round, made of the further outputs.
        sites: Call sites, by path.
        uses: How the server uses the replies of each call, by path.
    """

    job: Job
    start: ClosedJaxpr
    round: ClosedJaxpr
    states: tuple[PyTree, PyTree, PyTree]
    events: tuple[list[Event], list[Event]]
    sites: dict[str, Site]
    uses: dict[str, set[str]]


def trace(job: Job, algorithm) -> TracedRun:
    """Trace the start and one round; the clients' rows and the initial parameters are unknown.

    Args:
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
    """
    # Costs are averaged over seeds, whatever a secret adds to these.
    job = replace(job, secret=None)
    unknown, with_unknown = unknown_data(job)
    asks: list[EventAsk] = []

    def new_ask(unknown, seeds, round, samplers, clients) -> EventAsk:
        zero, (clients, memories, flight, statistics) = jnp.zeros((), "int32"), clients
        own = {"memories": memories, "flight": flight, "statistics": statistics}
        state = State(samplers, clients, no_counts(0), None, zero, zero, **own)
        inputs = replace(with_unknown(unknown), seeds=seeds, chunk=NO_CHUNKS, judged=False)
        asks.append(EventAsk(inputs, algorithm, round, state, None))
        return asks[-1]

    def start(unknown, seeds):
        first = first_state(with_unknown(unknown), algorithm, ())
        ask = new_ask(unknown, seeds, jnp.zeros((), "int32"), first.samplers, kept(first))
        server = ask.start(ask.job.start)
        return strongly_typed((server, ask.state.samplers, kept(ask.state))), ask.outputs

    def play(unknown, seeds, round, states):
        server, samplers, clients = states
        ask = new_ask(unknown, seeds, round, samplers, clients)
        ask.refresh(algorithm.output(server))
        server = strongly_typed(algorithm.round(ask, server))
        return (server, ask.state.samplers, kept(ask.state)), ask.outputs

    first, (states, _) = jax.make_jaxpr(start, return_shape=True)(unknown, job.seeds)
    first, round = inlined(first), inlined(jax.make_jaxpr(play)(unknown, job.seeds, np.zeros((), "int32"), states))
    before, within = asks
    sites = {**before.calls.reached, **within.calls.reached}
    return TracedRun(job, first, round, states, (before.events, within.events), sites, {**before.uses, **within.uses})


def kept(state: State) -> PyTree:
    """Return what is kept of the clients: states, what was said to them, requests in flight, and statistics."""
    return state.clients, state.memories, state.flight, state.statistics


def simulate(run: TracedRun, rounds: int, seeds: int) -> tuple[list, list]:
    """Return the outputs of the start, [seeds], and of the rounds, [seeds, rounds]; None for those that are unknown.

    Args:
        run: The traced start and round.
        rounds: Number of rounds.
        seeds: Number of seeds.
    """
    unknown = [None] * (len(run.start.jaxpr.invars) - len(jax.tree.leaves(run.job.seeds)))
    start_known, round_known = _known(run, len(unknown))
    count = len(jax.tree.leaves(run.states))

    def one(seeds):
        inputs = [*unknown, *jax.tree.leaves(seeds)]
        outputs = evaluate(run.start, start_known, inputs)

        def step(states, round):
            new = evaluate(run.round, round_known, [*inputs, round, *states])
            states = [old if new is None else new for old, new in zip(states, new[:count], strict=True)]
            return states, new[count:]

        _, table = lax.scan(step, outputs[:count], jnp.arange(1, rounds + 1, dtype="int32"))
        return outputs[count:], table

    given = run.job.seeds
    all_seeds = jax.tree.map(lambda seed: np.asarray(seed) + np.arange(seeds, dtype=np.asarray(seed).dtype), given)
    # In 64 bits JAX keeps the types that were traced, those of draws included.
    with jax.enable_x64(True):
        return jax.device_get(program(jax.vmap(one, axis_size=seeds), quick=True)(all_seeds))


def _known(run: TracedRun, unknown: int) -> tuple[list[bool], list[bool]]:
    """Return which outputs of start and round are known in every round; unknown states of samplers count as unchanged."""
    count = len(jax.tree.leaves(run.states))
    inputs = [False] * unknown + [True] * len(jax.tree.leaves(run.job.seeds))
    start = known(run.start, inputs)
    server, samplers, clients = run.states
    stays = jax.tree.leaves([jax.tree.map(lambda _, k=k: k == 1, part) for k, part in enumerate((server, samplers, clients))])
    states, before = start[:count], None
    while states != before:
        before = states
        round = known(run.round, [*inputs, True, *before])
        states = [old and (new or stay) for old, new, stay in zip(before, round, stays, strict=False)]
    return [*states, *start[count:]], [state and new for state, new in zip(states, round, strict=False)] + round[count:]


def unknown_data(job: Job):
    """Return the inputs that are unknown before the run, and a function that replaces them in `job`."""
    leaves, structure = jax.tree.flatten(job)
    data = {id(leaf) for leaf in jax.tree.leaves((job.start, job.storage.problem.rows))}
    places = [k for k, leaf in enumerate(leaves) if id(leaf) in data]

    def with_unknown(unknown) -> Job:
        other = dict(zip(places, unknown, strict=True))
        return jax.tree.unflatten(structure, [other.get(k, leaf) for k, leaf in enumerate(leaves)])

    return [leaves[k] for k in places], with_unknown
