"""LoCoDL: a random number of local steps between two communications of compressed differences."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress, variance_of
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Fraction, Positive, record, static
from turnout.core.tree import add, zeros
from turnout.samplers import Full, Sampler
from turnout.samplers.full_pass import full_pass
from turnout.theory.compression import LoCoDlSteps, cohort_variance, locodl_steps


class LoCoDlState(NamedTuple):
    """y, and the dual vector v of the common function g."""

    y: PyTree
    v: PyTree


class ClientState(NamedTuple):
    """A client's x_i and u_i before the steps that its next message completes, what it sent last, and v at that time."""

    x: PyTree
    u: PyTree
    sent: PyTree
    v: PyTree


@record
class LoCoDl(Algorithm):
    """LoCoDL (Condat, Maranjyan and Richtarik, 2025), with g(x) = (split / 2) |x|^2 taken out of each F_i = f_i + g.

    x_i <- x_i - lr (grad f_i(x_i) - u_i) and y <- y - lr (grad g(y) - v), a random number of times. Then d_i = C(x_i - y),
    d = sum_i lambda_i d_i / 2, x_i <- (1 - rho) x_i + rho (y + d), y <- y + rho d, u_i <- u_i + c (d - d_i), v <- v + c d with
    c = p chi / (lr (1 + 2 omega)) and rho = chi = 1 / (1 + v_C); u_i = v = 0 at first.

    C is unbiased with variance omega, v_C is `theory.compression.cohort_variance`, and the number of steps is geometric with mean
    1 / p. All clients take part, as many at a time as the sampler draws. The server keeps y and v and sends both, where the
    paper's clients keep y and v too and are sent d. A lost reply counts as d_i = 0, so that sum_i lambda_i u_i + v stays 0.

    For mu-strongly convex, L-smooth f_i and g, equal lambda_i and lr < 2 / L,
    Psi = (sum_i |x_i - x*|^2 + n |y - x*|^2) / lr
    + lr (1 + 2 omega) / (p^2 chi) (sum_i |u_i - grad f_i(x*)|^2 + n |v - grad g(x*)|^2) falls by
    max {(1 - lr mu)^2, (1 - lr L)^2, 1 - p^2 chi / (1 + 2 omega)} in expectation in a local step (Theorem 3.1).

    Args:
        sampler: How many clients are asked at a time; a round is charged as ceil(n / m) arbitrary selections.
        codec: C.
        lr: Step size, > 0; None means 2 / (L + mu) (`theory.compression.locodl_steps`).
        probability: p, in (0, 1]; None means that for which the rate's terms are equal, at most 1.
        split: Curvature of g, > 0; None means half the least mu_i of the F_i.
        variance: v_C, which `bind` sets.

    Raises:
        UserError: Where the codec is biased, or mu_i > 0 and L_i are needed and not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.LoCoDl(t.Full(), t.codecs.Qsgd(bits=4)), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]
        200
    """

    sampler: Sampler
    codec: Codec = static()
    lr: Positive | None = None
    probability: Fraction | None = None
    split: Positive | None = None
    variance: float | None = static(default=None, repr=False, kw_only=True)

    is_dual = True

    def bind(self, problem):
        steps = locodl_steps(problem, self.codec, self.lr, self.probability, self.split)
        variance, sampler = cohort_variance(problem, Full(), self.codec), full_pass(self.sampler, problem.population)
        return replace(self, sampler=sampler, variance=variance, **steps._asdict())

    def start(self, ask, x):
        return LoCoDlState(x, zeros(x))

    def client_state(self, x):
        return ClientState(x, zeros(x), zeros(x), zeros(x))

    def output(self, server):
        return server.y

    def round(self, ask, server):
        steps = jax.random.geometric(ask.key(), self._known.probability, dtype="int32")
        replies = ask_compressed(ask, self.sampler, self.train, (*server, steps), self.codec, server.y)
        ask.observe(replies)
        total, rate = replies.total(), self._rate(server.y)
        return LoCoDlState(add(self._descend(*server, steps), total, self._rho / 2), add(server.v, total, rate / 2))

    @on_client
    def train(self, client, message):
        """The payload of d_i, after `steps` local steps."""
        (y, v, steps), key = message
        x, u, sent, old = client.state
        moved, known = add(v, old, -1.0), self._known
        # y is what the paper's y + rho d is, so that y + d is y + (1 - rho) d.
        target = add(y, moved, (1 - self._rho) / self._rate(y))
        x = add(x, add(target, x, -1.0), self._rho)
        u = add(add(u, moved), sent, -self._rate(y))
        x = client.loop(steps, lambda x: add(x, add(add(client.grad(x), x, -known.split), u, -1.0), -known.lr), x)
        payload, sent = compress(self.codec, add(x, self._descend(y, v, steps), -1.0), client, key)
        return Done(payload, ClientState(x, u, sent, v), steps)

    def _descend(self, y, v, steps) -> PyTree:
        """Return y after so many steps on g(y) - v.y, which go to v / split along a line."""
        lr, split = self._known.lr, self._known.split
        left = jnp.power(1 - jnp.asarray(lr * split, float), steps.astype(float))
        return jax.tree.map(lambda y, v: left.astype(y.dtype) * y + (1 - left).astype(y.dtype) * v / split, y, v)

    @property
    def _known(self) -> LoCoDlSteps:
        """lr, p and split, which `bind` sets where they are not given."""
        known: Any = (self.lr, self.probability, self.split)
        return LoCoDlSteps(*known)

    @property
    def _rho(self) -> Any:
        """rho = chi, which follow from what `bind` sets."""
        variance: Any = self.variance
        return 1 / (1 + variance)

    def _rate(self, x) -> Any:
        """Return c."""
        return self._known.probability * self._rho / (self._known.lr * (1 + 2 * variance_of(self.codec, x)))
