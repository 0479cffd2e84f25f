"""CLAG: EF21 whose clients send a difference only where it is worth it; LAG without compression."""

from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.ef21 import Ef21
from turnout.algorithms.learned_gradient import LearnedState
from turnout.codecs.trees import ask_compressed, compress
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import NonNegative, record
from turnout.core.tree import add, zeros
from turnout.samplers import Full
from turnout.theory.compression import ef21_step


class LazyMemory(NamedTuple):
    """A client's g_i, which the server knows, and its last gradient y_i."""

    memory: PyTree
    gradient: PyTree


@record
class Clag(Ef21):
    """CLAG, the three-point compressor of EF21 and lazy aggregation (Richtarik et al., 2022, table 1 and section 4.4).

    g_i <- g_i + C(grad f_i(x) - g_i) for those i in S with |grad f_i(x) - g_i|^2 > trigger |grad f_i(x) - y_i|^2, where y_i is
    the gradient of the last time; then x <- x - lr sum_i lambda_i g_i. g_i = y_i = 0 at first.

    With the codec `Identity` it is LAG (Chen et al., 2018), with trigger = 0 it is `Ef21`. The trigger is the paper's zeta. All
    clients of the cohort are sent x and reply with one truth value; those that have something to send are asked again, for
    C(grad f_i(x) - g_i), so that the ledger counts what the others save: a second contact and its reply.

    With full participation and beta and theta as in EF21, G = sum_i lambda_i |g_i - grad f_i(x)|^2 satisfies
    E G' <= (1 - theta) G + max {beta, trigger} L~^2 |x' - x|^2, so that for L_i-smooth f_i with |grad f|^2 >= 2 mu (f - f*) and
    lr <= min {1 / (L_bar + L~ sqrt(2 max {beta, trigger} / theta)), theta / (2 mu)} the gap f(x) - f* + (lr / theta) G falls by
    1 - lr mu a round in expectation (Theorem 5.8).

    Args:
        sampler: Who takes part in each round.
        codec: C.
        lr: Step size of the server, > 0; None means that of the theorem, for full participation.
        trigger: zeta, >= 0; larger ones skip more replies. Up to beta the theorem's step size is that of EF21.

    Raises:
        UserError: Where lr is left out, and L_i of the problem or alpha of C is not known, or not all take part.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.Clag(t.Full(), t.codecs.TopK(count=2), trigger=2.0), problem, rounds=10)
        >>> trace.ledger.totals()["contacts"]
        146
    """

    trigger: NonNegative = field(kw_only=True)

    cohorts_per_round = None

    def bind(self, problem):
        if self.lr is not None:
            return self
        if not isinstance(self.sampler, Full):
            raise UserError(f"no step size is known for Clag and cohorts of {type(self.sampler).__name__}: give lr")
        return replace(self, lr=ef21_step(problem, self.sampler, self.codec, float(self.trigger)))

    def client_state(self, x):
        return LazyMemory(zeros(x), zeros(x))

    def round(self, ask, server):
        looked = ask(self.sampler, self.look, server.x)
        sends = replace(looked.cohort, active=looked.answered & looked.values)
        changes = ask_compressed(ask, sends, self.change, None, self.codec, server.x, contract=True)
        ask.observe(changes)
        memory = add(server.memory, changes.total())
        return LearnedState(add(server.x, memory, -self._lr), memory)

    @on_client
    def look(self, client, x):
        """Whether the change of g_i is worth a reply."""
        memory, last = client.state
        gradient = client.grad(x)
        worth = _distance(gradient, memory) > self._trigger * _distance(gradient, last)
        return Done(worth, LazyMemory(memory, gradient))

    @on_client
    def change(self, client, message):
        """C(grad f_i(x) - g_i), the change of g_i."""
        memory, gradient = client.state
        _, key = message
        payload, change = compress(self.codec, add(gradient, memory, -1.0), client, key, contract=True)
        return Done(payload, LazyMemory(add(memory, change), gradient), queries=0)

    @property
    def _trigger(self) -> Any:
        return jnp.asarray(self.trigger)


def _distance(x: PyTree, y: PyTree) -> Float[Array, ""]:
    """Return |x - y|^2."""
    return sum(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.sum(jnp.square(x - y)), x, y)), start=jnp.zeros(()))
