"""DASHA: compressed differences of momentum estimates, which all clients send, or those that take part."""

from dataclasses import KW_ONLY, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from turnout.client_solvers.base import of_client
from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress, variance_of
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.tree import add, zeros
from turnout.samplers import Full, Sampler
from turnout.theory.compression import dasha_step
from turnout.theory.designs import inclusion


class DashaState(NamedTuple):
    """x, and `estimate` = g = sum_i lambda_i g_i."""

    x: PyTree
    estimate: PyTree


class Estimates(NamedTuple):
    """A client's h_i, which follows its gradient, and g_i, what the server knows of it."""

    own: PyTree
    sent: PyTree


@record
class Dasha(Algorithm):
    """DASHA with full participation (Tyurin and Richtarik, 2022), and DASHA-PP with other cohorts (the same, 2023).

    y = x - lr g, k_i = grad f_i(y) - grad f_i(x) - b (h_i - grad f_i(x)), m_i = C((k_i - a (g_i - h_i)) / p_i),
    h_i <- h_i + k_i / p_i, g_i <- g_i + m_i for i in S, then g <- g + sum_{i in S} lambda_i m_i, x <- y; h_i = g_i = 0 at first.

    C is unbiased with variance omega, p_i are the probabilities to take part with the least p, a = p / (2 omega + 1) and
    b = p / (2 - p). With full participation b = 1: then h_i = grad f_i(y), and only y is sent; else y and x, for two queries.
    With a `batch` both gradients are of the same random rows, and `momentum` is b: DASHA-MVR, DASHA-PP-MVR. No client ever sends
    a whole vector.

    For L_i-smooth f_i, and |grad f|^2 >= 2 mu (f - f*), let W = max_i lambda_i. With full participation, v = W omega and
    lr <= min {1 / (L_bar + L~ sqrt(v (24 omega + 4))), a / (2 mu)} the gap
    f(x) - f* + lr ((1 / a) |g - grad f(x)|^2 + 4 v sum_i lambda_i |g_i - grad f_i(x)|^2) falls by 1 - lr mu a round in
    expectation after the first one. With cohorts, h = sum_i lambda_i h_i and the lr of `theory.compression.dasha_step`, so does
    f(x) - f* + lr ((2 / a) |g - h|^2 + (4 W / a) sum_i lambda_i |g_i - h_i|^2 + (2 / b) |h - grad f(x)|^2
    + (48 b W omega / (p a) + 8 W / p) sum_i lambda_i |h_i - grad f_i(x)|^2). The papers have such sums with other constants;
    these follow in a few lines from E|g_i' - h_i'|^2 <= (1 - a) |g_i - h_i|^2 + (2 omega / p) |k_i|^2 and
    E|h_i' - grad f_i(y)|^2 <= (1 - b) |h_i - grad f_i(x)|^2 + (2 (1 - p) / p) |grad f_i(y) - grad f_i(x)|^2.

    Args:
        sampler: Who takes part in each round, each client with a known and constant probability.
        codec: C.
        lr: Step size of the server, > 0; None means the largest above.
        batch: Rows of a random batch, for both gradients; None for all rows.
        momentum: b, in (0, 1]; None means p / (2 - p).
        chances: p_i, which `bind` sets; None where all take part.

    Raises:
        UserError: Where the codec is biased, or lr is left out with a batch or a momentum, or L_i or a bound for the cohorts are
            not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.Dasha(t.Nice(4), t.codecs.Qsgd(bits=4)), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]
        100
    """

    sampler: Sampler
    codec: Codec = static()
    lr: Positive | None = None
    _: KW_ONLY
    batch: Count | None = static(default=None)
    momentum: Fraction | None = None
    chances: Float[np.ndarray, " n"] | None = field(default=None, repr=False)

    def bind(self, problem):
        if self.lr is None and (self.batch is not None or self.momentum is not None):
            raise UserError("no step size is known for Dasha with a batch or a momentum: give lr")
        lr = dasha_step(problem, self.sampler, self.codec) if self.lr is None else self.lr
        chances = None if isinstance(self.sampler, Full) else inclusion(self.sampler, problem.population)
        return replace(self, lr=lr, chances=chances)

    def start(self, ask, x):
        return DashaState(x, zeros(x))

    def client_state(self, x):
        return Estimates(zeros(x), zeros(x))

    def output(self, server):
        return server.x

    @property
    def follows(self) -> bool:
        """Whether h_i is the gradient at the last point, so that a client need not be sent it."""
        return self.chances is None and self.batch is None and self.momentum is None

    def round(self, ask, server):
        lr: Any = self.lr
        new = add(server.x, server.estimate, -lr)
        points = (new,) if self.follows else (new, server.x)
        replies = ask_compressed(ask, self.sampler, self.difference, points, self.codec, new)
        ask.observe(replies)
        return DashaState(new, add(server.estimate, replies.total()))

    @on_client
    def difference(self, client, message):
        """m_i."""
        points, key = message
        h, sent = client.state
        rows = client if self.batch is None else client.batch(client.key, self.batch)
        slopes = [rows.grad(point) for point in points]
        least, chance = (1.0, 1.0) if self.chances is None else (jnp.min(self.chances), of_client(self.chances, client.id))
        if self.follows:
            step = add(slopes[0], h, -1.0)
        else:
            b = least / (2 - least) if self.momentum is None else self.momentum
            new, old = slopes
            step = jax.tree.map(lambda new, old, h: (new - old - b * (h - old)) / chance, new, old, h)
        a = least / (chance * (2 * variance_of(self.codec, h) + 1))
        wanted = jax.tree.map(lambda step, sent, h: step - a * (sent - h), step, sent, h)
        payload, change = compress(self.codec, wanted, client, key)
        return Done(payload, Estimates(add(h, step), add(sent, change)), queries=len(slopes))
