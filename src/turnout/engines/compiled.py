"""The compiled engine: a whole run is one jitted loop over rounds, a cohort is a `vmap` axis."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from turnout.accounting.ledger import Site
from turnout.core.errors import UserError
from turnout.core.local_methods import local_method
from turnout.core.messages import split_each
from turnout.engines.ask import EngineAsk, finished, strongly_typed
from turnout.engines.inputs import Job
from turnout.engines.reply_usage import EACH, Watched
from turnout.engines.state import Progress, begin, first_state, look, play_round
from turnout.problems.storage.jax_client import JaxClient
from turnout.samplers.base import Sampler

PLACES = 1024
"""Trace rows that one call of the compiled program can write."""

LEAK = (
    "ask was called inside a raw JAX loop, branch or vmap of {name}.round: use ask.loop or ask.cond there, "
    "so that the engine can keep count"
)


class CompiledAsk(EngineAsk):
    """Answers `ask` while a round is being traced; `uses` tells what the server makes of the replies to each call.

    `drawn_by` has for each call the sampler that drew its cohort, and the call site of the draw where it was drawn for this call.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.uses: dict[str, set[str]] = {}
        self.drawn_by: dict[str, tuple[Sampler | None, str | None]] = {}
        self._trace = trace_state()

    def draw(self, sampler, method=None, message=None):
        self._stay_in_trace()
        self._drew = f"{self._prefix}{self._next}"
        return super().draw(sampler, method, message)

    def __call__(self, who, method, message):
        self._stay_in_trace()
        replies = super().__call__(who, method, message)
        watched = Watched(replies, self.uses.setdefault(self._asked.path, set()))
        if getattr(replies, "losses", None) is not None:
            watched.uses.add(EACH)
        place, path = self._place(replies.cohort), self._asked.path
        sampler = None if place is None else self.samplers[self._drawn[place][1]]
        self.drawn_by[path] = sampler, self._drew if isinstance(who, Sampler) else None
        return watched

    def observe(self, replies, feedback=None):
        super().observe(self._heard(replies, feedback), feedback)

    def _heard(self, replies, feedback):
        """Return the replies themselves; a sampler that learns from them looks at each."""
        if not isinstance(replies, Watched):
            return replies
        place = self._place(replies.held.cohort)
        if feedback is None and place is not None and self.samplers[self._drawn[place][1]].learns_from_feedback:
            replies.uses.add(EACH)
        return replies.held

    def _preview(self, number, path, method, message):
        super()._preview(number, path, method, message)
        self.uses[f"{path}.preview" if self.samplers[number].is_charged else path] = {EACH}

    def loop(self, count, body, carry, until=None):
        outside, path = len(self._drawn), f"{self._path()}.loop"

        def step(_, packed):
            return self._traced(path, body, outside, packed)

        packed = self._pause(outside), strongly_typed(carry)
        if until is None:
            state, carry = lax.fori_loop(0, count, step, packed)
        else:
            _, (state, carry) = lax.while_loop(
                lambda place: (place[0] < count) & ~until(place[1][1]),
                lambda place: (place[0] + 1, step(place[0], place[1])),
                (jnp.zeros((), "int32"), packed),
            )
        self._resume(state, outside)
        return carry

    def cond(self, predicate, then, otherwise, carry):
        outside, path = len(self._drawn), self._path()
        branches = [
            partial(self._traced, f"{path}.{name}", branch, outside)
            for name, branch in (("then", then), ("otherwise", otherwise))
        ]
        state, carry = lax.cond(predicate, *branches, (self._pause(outside), strongly_typed(carry)))
        self._resume(state, outside)
        return carry

    def _traced(self, path, body, outside, packed):
        """Trace a body with the state handed in, and hand the state out beside what the body returns."""
        state, carry = packed
        self._resume(state, outside)
        with self._inside(path):
            carry = strongly_typed(body(carry))
        return self._pause(outside), carry

    def _resume(self, state, outside):
        super()._resume(state, outside)
        self._trace = trace_state()

    def _stay_in_trace(self):
        if trace_state() != self._trace:
            raise UserError(LEAK.format(name=type(self.algorithm).__name__))

    def _run_clients(self, cohort, method, message, losses):
        key = self.job.seeds.exchange(self.round, self.state.exchanges)
        run = local_method(self.algorithm, method, self.job.start)
        own, write = split_each(message)
        protection, moment = self.job.protection, (self.round, self.state.exchanges)
        kept, ids = look_up(self.state.clients, cohort)
        self._looked_up = cohort, ids

        def local(place):
            i, active, state, own = place
            client = JaxClient(i, jax.random.fold_in(key, i), state, self.job.storage.oracle(i), active)
            done = run(client, write(own))
            if protection is not None:
                done = protection.protect(done, protection.key(method, *moment, i))
            return finished(done, state)

        places = (cohort.ids, cohort.active, kept, own)
        if cohort.places <= self.job.chunk:
            return jax.vmap(local)(places)
        return lax.map(local, places, batch_size=self.job.chunk)

    def _commit(self, cohort, answered, states):
        asked, ids = self._looked_up
        # New states are kept once the old ones were looked up, and not at the same time: see `look_up`.
        target = jnp.where(answered, ids if asked is cohort else cohort.ids, self.job.population.count)
        clients = jax.tree.map(
            lambda old, new: old.at[target].set(new.astype(old.dtype), mode="drop"), self.state.clients, states
        )
        self.state = self.state._replace(clients=clients)


def trace_state():
    """Return what tells apart the traces that JAX is in the midst of."""
    # Slow to import.
    from jax.extend.core import get_opaque_trace_state

    return get_opaque_trace_state()


def look_up(clients, cohort):
    """Return the states of a cohort's clients, [m, ...], and the cohort's ids as known after that.

    What a branch does is not fused with what is around it. Else XLA would look the states up again after the cohort's new ones
    are kept, or before the last ones are, and for that copy the states of all clients, each round.
    """
    if not jax.tree.leaves(clients):
        return clients, cohort.ids

    def there(clients):
        return jax.tree.map(lambda leaf: leaf[cohort.ids], clients), cohort.ids

    def nothing(clients):
        return jax.tree.map(jnp.zeros_like, jax.eval_shape(there, clients))

    # Nor may the choice be known when this is compiled, or be no choice.
    return lax.cond(jnp.any(cohort.active & (cohort.ids >= 0)), there, nothing, clients)


class Compiled:
    """Plays rounds of one algorithm inside one jitted program, which a new seed or hyper-parameter does not recompile."""

    def __init__(self, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        self.job, self.algorithm = job, algorithm
        self.metrics, self.every = metrics, every
        self.sites = discover(job, algorithm)

    def begin(self) -> Progress:
        """Return the state before the first round."""
        return _begin(self.job, self.algorithm, sites=self.sites)

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play on until `rows` more trace rows are written or the round `limit` is reached; `progress` is used up."""
        progress, table = _advance(
            self.job, self.algorithm, progress, limit, rows, self.every, sites=self.sites, metrics=self.metrics
        )
        return progress, jax.tree.map(lambda column: np.asarray(column)[:rows], table)


def discover(job: Job, algorithm) -> tuple[Site, ...]:
    """Find the call sites of the start and of one round, without running them."""
    return tuple(survey(job, algorithm).found.values())


def survey(job: Job, algorithm) -> CompiledAsk:
    """Trace the start and one round without running them, and return the `ask` that was asked."""
    asks = []

    def trace():
        state = first_state(job, algorithm, sites=())
        ask = CompiledAsk(job, algorithm, jnp.zeros((), "int32"), state, None)
        server = ask.start(job.start)
        ask.refresh(algorithm.output(server))
        algorithm.round(ask, server)
        asks.append(ask)

    jax.eval_shape(trace)
    return asks[0]


@partial(jax.jit, static_argnames=("sites",))
def _begin(job: Job, algorithm, *, sites) -> Progress:
    # Compiled whole, since its operations one by one take longer to compile.
    return begin(CompiledAsk, job, algorithm, sites)


def advance(job: Job, algorithm, progress: Progress, limit, rows, every, *, sites, metrics, places=PLACES):
    """Play until `rows` of the `places` rows of a table are filled; return the progress and the table."""

    def one_round(_, progress):
        return play_round(CompiledAsk, job, algorithm, sites, progress)

    def row(k, packed):
        progress, table = packed
        many = jnp.where(progress.over, 0, jnp.clip(limit - progress.round, 0, every))
        progress = lax.fori_loop(0, many, one_round, progress)
        progress, entry = look(job, algorithm, metrics, progress)
        return progress, jax.tree.map(lambda column, value: column.at[k].set(value), table, entry)

    _, entry = jax.eval_shape(lambda: look(job, algorithm, metrics, progress))
    table = jax.tree.map(lambda leaf: jnp.zeros((places, *leaf.shape), leaf.dtype), entry)
    return lax.fori_loop(0, rows, row, (progress, table))


_advance = partial(jax.jit, static_argnames=("sites", "metrics"), donate_argnames=("progress",))(advance)
