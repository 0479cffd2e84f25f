"""MARINA: compressed differences of gradients, and all gradients now and then."""

from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Fraction, Positive, record, static
from turnout.core.tree import add
from turnout.samplers import Full, Sampler
from turnout.samplers.full_pass import full_pass
from turnout.theory.compression import marina_step


class MarinaState(NamedTuple):
    """x, and `gradient` = g."""

    x: PyTree
    gradient: PyTree


@record
class Marina(Algorithm):
    """MARINA (Gorbunov et al., 2021) with full participation, and PP-MARINA with any other sampler.

    y = x - lr g; with a probability p g <- grad f(y), else g <- g + sum_{i in S} (lambda_i / p_i) C(grad f_i(y) - grad f_i(x));
    x <- y. g = grad f(x) at first, by a pass over all clients.

    C is unbiased with variance omega. Clients have no state: both points are sent, and a difference takes two queries.

    Args:
        sampler: Who takes part in rounds without a pass; its cohort size is the number of clients that a pass asks at a time.
        codec: C.
        probability: p, the probability of a pass.
        lr: Step size of the server, > 0; None means that of the theorem (`theory.compression.marina_step`).
        everyone: Sampler of the pass. Set by `bind`.

    Raises:
        UserError: Where lr is left out, and the codec is biased, or L_i or a bound for the cohorts are not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.Marina(t.Nice(4), t.codecs.RandK(count=2), probability=0.2), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        6
    """

    sampler: Sampler
    codec: Codec = static()
    probability: Fraction
    lr: Positive | None = None
    everyone: Sampler = field(default=Full(), repr=False, kw_only=True)

    cohorts_per_round = None

    def bind(self, problem):
        lr = marina_step(problem, self.sampler, self.codec, self.probability) if self.lr is None else self.lr
        return replace(self, lr=lr, everyone=full_pass(self.sampler, problem.population))

    def start(self, ask, x):
        return MarinaState(x, ask(self.everyone, self.gradient, x).average())

    def output(self, server):
        return server.x

    @property
    def _lr(self) -> Any:
        """The step size, which `bind` sets where it is not given."""
        return self.lr

    def round(self, ask, server):
        x, g = server
        new = add(x, g, -self._lr)

        def differences(g):
            replies = ask_compressed(ask, self.sampler, self.difference, (new, x), self.codec, x)
            ask.observe(replies)
            return add(g, replies.average())

        passed = jax.random.bernoulli(ask.key(), self.probability)
        return MarinaState(new, ask.cond(passed, lambda g: ask(self.everyone, self.gradient, new).average(), differences, g))

    @on_client
    def gradient(self, client, x):
        """grad f_i(x)."""
        return Done(client.grad(x))

    @on_client
    def difference(self, client, message):
        """C(grad f_i(y) - grad f_i(x))."""
        (new, old), key = message
        return Done(compress(self.codec, add(client.grad(new), client.grad(old), -1.0), client, key)[0], queries=2)
