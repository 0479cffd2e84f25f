"""A rehearsal: start and rounds traced once, and played without the clients as far as these have no say."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr
from jaxtyping import PyTree

from turnout.accounting.counters import no_counts
from turnout.accounting.ledger import Site
from turnout.engines.ask import State, strongly_typed
from turnout.engines.cost_estimate.partial_eval import evaluate, known
from turnout.engines.cost_estimate.tracing import Event, PlanAsk
from turnout.engines.inputs import Job
from turnout.engines.state import first_state

EVERYONE = 2**30
"""More places than any cohort has: nothing is computed, so that no cohort need be cut into chunks."""

CHEAP = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_llvm_disable_expensive_passes": True,
}
"""For a program that takes longer to compile than to run."""


class Rehearsal(NamedTuple):
    """The start and one round as programs of (what is not known, seeds, and for a round its number and the states before it).

    They return the states (server, samplers, clients) after it, of the shapes `states`, and what `events` are made of. `uses` are
    what the server makes of the replies at each of the `sites`.
    """

    job: Job
    start: ClosedJaxpr
    round: ClosedJaxpr
    states: tuple[PyTree, PyTree, PyTree]
    events: tuple[list[Event], list[Event]]
    sites: dict[str, Site]
    uses: dict[str, set[str]]


def trace(job: Job, algorithm) -> Rehearsal:
    """Trace start and round; what the clients' rows and the first parameters decide is not known."""
    unknown, with_unknown = _unknown(job)
    asks: list[PlanAsk] = []

    def ask_with(unknown, seeds, round, samplers, clients) -> PlanAsk:
        zero = jnp.zeros((), "int32")
        state = State(samplers, clients, no_counts(0), None, zero, zero, (), ())
        own = replace(with_unknown(unknown), seeds=seeds, chunk=EVERYONE, judged=False)
        asks.append(PlanAsk(own, algorithm, round, state, None))
        return asks[-1]

    def start(unknown, seeds):
        first = first_state(with_unknown(unknown), algorithm, ())
        ask = ask_with(unknown, seeds, jnp.zeros((), "int32"), first.samplers, first.clients)
        server = ask.start(ask.job.start)
        return strongly_typed((server, ask.state.samplers, ask.state.clients)), ask.outputs

    def play(unknown, seeds, round, states):
        server, samplers, clients = states
        ask = ask_with(unknown, seeds, round, samplers, clients)
        ask.refresh(algorithm.output(server))
        server = strongly_typed(algorithm.round(ask, server))
        return (server, ask.state.samplers, ask.state.clients), ask.outputs

    first, (states, _) = jax.make_jaxpr(start, return_shape=True)(unknown, job.seeds)
    round = jax.make_jaxpr(play)(unknown, job.seeds, jnp.zeros((), "int32"), states)
    before, within = asks
    events, sites = (before.events, within.events), {**before.found, **within.found}
    return Rehearsal(job, first, round, states, events, sites, {**before.uses, **within.uses})


def play(rehearsal: Rehearsal, rounds: int, seeds: int) -> tuple[list, list]:
    """Play what can be known: the outputs of the start [seeds] and of the rounds [seeds, rounds], None if they are not known."""
    unknown = [None] * (len(rehearsal.start.jaxpr.invars) - len(jax.tree.leaves(rehearsal.job.seeds)))
    start_known, round_known = _known(rehearsal, len(unknown))
    many = len(jax.tree.leaves(rehearsal.states))

    def one(seeds):
        given = [*unknown, *jax.tree.leaves(seeds)]
        outputs = evaluate(rehearsal.start, start_known, given)

        def step(states, round):
            new = evaluate(rehearsal.round, round_known, [*given, round, *states])
            kept = [old if new is None else new for old, new in zip(states, new[:many], strict=True)]
            return kept, new[many:]

        _, table = lax.scan(step, outputs[:many], jnp.arange(1, rounds + 1, dtype="int32"))
        return outputs[many:], table

    own = jax.tree.map(lambda seed: jnp.asarray(seed) + jnp.arange(seeds, dtype=jnp.asarray(seed).dtype), rehearsal.job.seeds)
    program = jax.jit(jax.vmap(one, axis_size=seeds)).lower(own).compile(compiler_options=CHEAP)
    return jax.device_get(program(own))


def _known(rehearsal: Rehearsal, unknown: int) -> tuple[list[bool], list[bool]]:
    """Tell which outputs of start and round are known in every round; samplers stay as they were where they are not."""
    many = len(jax.tree.leaves(rehearsal.states))
    given = [False] * unknown + [True] * len(jax.tree.leaves(rehearsal.job.seeds))
    start = known(rehearsal.start, given)
    server, samplers, clients = rehearsal.states
    stays = jax.tree.leaves([jax.tree.map(lambda _, k=k: k == 1, part) for k, part in enumerate((server, samplers, clients))])
    states, before = start[:many], None
    while states != before:
        before = states
        round = known(rehearsal.round, [*given, True, *before])
        states = [old and (new or stay) for old, new, stay in zip(before, round, stays, strict=False)]
    return [*states, *start[many:]], [state and new for state, new in zip(states, round, strict=False)] + round[many:]


def _unknown(job: Job):
    """Return what of the job is not known before it runs, and how to put something else in its place."""
    leaves, structure = jax.tree.flatten(job)
    secret = {id(leaf) for leaf in jax.tree.leaves((job.start, job.storage.problem.rows))}
    places = [k for k, leaf in enumerate(leaves) if id(leaf) in secret]

    def with_unknown(unknown) -> Job:
        other = dict(zip(places, unknown, strict=True))
        return jax.tree.unflatten(structure, [other.get(k, leaf) for k, leaf in enumerate(leaves)])

    return [leaves[k] for k in places], with_unknown
