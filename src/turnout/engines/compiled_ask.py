"""The `ask` of the compiled engine, which answers while a round is traced."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from turnout.core.debugging import debugging
from turnout.core.errors import UserError
from turnout.core.local_methods import local_method
from turnout.core.messages import split_each
from turnout.core.tracing import current_trace
from turnout.engines.async_ask import AsyncAsk
from turnout.engines.exchange.strong_types import completed, strongly_typed
from turnout.problems.storage.jax_client import JaxClient


class CompiledAsk(AsyncAsk):
    """Answers `ask` while a round is traced: clients are a `vmap` axis, and loops and branches are those of `lax`."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._trace, self._looked_up = current_trace(), (None, None)

    def draw(self, sampler, method=None, message=None):
        self._refuse_raw_loop()
        return super().draw(sampler, method, message)

    def __call__(self, who, method, message):
        self._refuse_raw_loop()
        return super().__call__(who, method, message)

    def send(self, who, method, message):
        self._refuse_raw_loop()
        return super().send(who, method, message)

    def next(self, count=1):
        self._refuse_raw_loop()
        return super().next(count)

    def loop(self, count, body, carry, until=None):
        outside, path = len(self.draws), f"{self.calls.next_path()}.loop"

        def step(_, carry):
            return self._traced(path, body, outside, carry)

        carry = self._pause(outside), strongly_typed(carry)
        if until is None:
            state, carry = lax.fori_loop(0, count, step, carry)
        else:
            _, (state, carry) = lax.while_loop(
                lambda place: (place[0] < count) & ~until(place[1][1]),
                lambda place: (place[0] + 1, step(place[0], place[1])),
                (jnp.zeros((), "int32"), carry),
            )
        self._resume(state, outside)
        return carry

    def cond(self, predicate, then, otherwise, carry):
        outside, path = len(self.draws), self.calls.next_path()
        branches = [
            partial(self._traced, f"{path}.{name}", branch, outside)
            for name, branch in (("then", then), ("otherwise", otherwise))
        ]
        state, carry = lax.cond(predicate, *branches, (self._pause(outside), strongly_typed(carry)))
        self._resume(state, outside)
        return carry

    def _traced(self, path, body, outside, carry):
        """Trace the body of a loop or a branch, whose carry is the state of this `ask` and the body's own."""
        state, carry = carry
        self._resume(state, outside)
        with self.calls.inside(path):
            carry = strongly_typed(body(carry))
        return self._pause(outside), carry

    def _resume(self, state, outside):
        super()._resume(state, outside)
        self._trace = current_trace()

    def _refuse_raw_loop(self):
        """Raise `UserError` inside a loop, branch or vmap that this `ask` does not know of."""
        if current_trace() != self._trace:
            where = type(self.algorithm.addressed).__name__
            raise UserError(
                f"ask was called inside a raw JAX loop, branch or vmap of {where}.round: use ask.loop or ask.cond there, so that "
                "the engine can keep count"
            )

    def _run_clients(self, cohort, method, message, losses):
        exchange = self.round, self.state.exchanges
        key = self.job.seeds.exchange(*exchange)
        run = local_method(self.algorithm, method, self.job.start)
        individual, write = split_each(message)
        protection = self.job.protection
        first = self.algorithm.client_state(self.job.start)
        states, ids = self.job.storage.look_up(self.state.clients, self._here(cohort), first)
        self._looked_up = cohort, ids

        def run_one(place):
            i, active, state, own = place
            client = JaxClient(i, jax.random.fold_in(key, i), state, self.job.storage.oracle(i), active)
            done = run(client, write(own))
            if protection is not None:
                done = protection.protect(done, protection.key(method, *exchange, i))
            return completed(done, state)

        return self._at_each_place(run_one, cohort, (cohort.ids, cohort.active, states, individual))

    def _here(self, cohort):
        """Return a cohort with the ids that its clients have among those whose states are here."""
        return cohort

    def _at_each_place(self, run_one, cohort, places):
        """Return `run_one` of each of the `places` of a cohort, stacked [m, ...]."""
        if debugging():
            done = [run_one(jax.tree.map(lambda leaf, k=k: leaf[k], places)) for k in range(cohort.places)]
            return jax.tree.map(lambda *leaves: jnp.stack(leaves), *done)
        if cohort.places <= self.job.chunk:
            return jax.vmap(run_one)(places)
        return lax.map(run_one, places, batch_size=self.job.chunk)

    def _commit(self, cohort, answered, states, turn=None):
        asked, ids = self._looked_up
        # The ids depend on the lookup of the old states, so that XLA does not overwrite these earlier: see `look_up`.
        ids = ids if asked is cohort else self._here(cohort).ids
        clients = self.job.storage.write_back(self.state.clients, states, ids, answered)
        self.state = self.state._replace(clients=clients)
