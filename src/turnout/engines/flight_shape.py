"""What an algorithm's requests in flight look like, found by a trace before the run."""

import jax
import jax.numpy as jnp

from turnout.core.errors import UserError
from turnout.engines.ask import State
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.exchange.flight import Flight
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.inputs import Job


class TracingAsk(CompiledAsk):
    """Answers `ask` while a round is traced, with each loop's body and each branch once, so that requests may begin anywhere."""

    def loop(self, count, body, carry, until=None):
        outside, path = len(self.draws), f"{self.calls.next_path()}.loop"
        with self.calls.inside(path):
            carry = body(strongly_typed(carry))
        self._resume(self._pause(outside), outside)
        return carry

    def cond(self, predicate, then, otherwise, carry):
        carry = strongly_typed(carry)
        self.loop(1, then, carry)
        return self.loop(1, otherwise, carry)


def no_requests(job: Job, algorithm, state: State) -> Flight | None:
    """Return the places for requests in flight, all empty; None for an algorithm that has none.

    Args:
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
        state: The state before the first round.
    """
    if not algorithm.addressed.places:
        return None

    def play():
        ask = TracingAsk(job, algorithm, jnp.zeros((), "int32"), state, None)
        algorithm.round(ask, strongly_typed(ask.start(job.start)))
        return ask.state.flight

    flight = jax.eval_shape(play)
    if flight is None:
        raise UserError(f"{type(algorithm.addressed).__name__}.places is not 0, but it sends no requests: leave it out")
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), flight)
