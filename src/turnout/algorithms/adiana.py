"""ADIANA: DIANA accelerated, with the memories at a point that changes rarely."""

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
from turnout.core.tree import add, where, zeros
from turnout.samplers import Sampler
from turnout.theory.compression import adiana_steps


class AdianaState(NamedTuple):
    """y, the parameters found; z, the long steps; the anchor w; and `memory` = h = sum_i lambda_i h_i."""

    y: PyTree
    z: PyTree
    anchor: PyTree
    memory: PyTree


@record
class Adiana(Algorithm):
    """ADIANA (Li, Kovalev, Qian and Richtarik, 2020, Algorithm 3) without a regulariser, for any sampler.

    x = theta z + w / 2 + (1/2 - theta) y, g = sum_i lambda_i h_i + sum_{i in S} (lambda_i / p_i) C(grad f_i(x) - h_i),
    h_i <- h_i + C(grad f_i(w) - h_i) / (1 + omega) for i in S, then w <- y with a probability p,
    y <- x - lr g, z <- (1 - gamma mu) z + gamma mu x - gamma g; h_i = 0 at first.

    C is unbiased with variance omega, theta = min {1/4, sqrt(lr mu / p)} and gamma = lr / (2 (theta + lr mu)). Two vectors are
    sent, and two compressed ones come back, for two queries.

    For convex, L-smooth f_i and mu-strongly convex f let v be `theory.compression.cohort_variance`, omega / n with full
    participation and equal weights, alpha = min_i p_i / (1 + omega) and lr <= min {1 / (2 L), 1 / (16 v L (1 + 4 p / alpha)^2)}.
    Then Psi = |z - x*|^2 + (2 gamma (1 - gamma mu) / theta) (f(y) - f* + (f(w) - f*) / (2 (p - tau))
    + (8 lr v / alpha) sum_i lambda_i |h_i - grad f_i(w)|^2) falls by 1 - tau a round in expectation,
    tau = min {theta p / 2, gamma mu, alpha / 4} (the paper's Theorem 5, with the constants of the proof below).

    Proof: with D(u) = f(u) - f(x) - <grad f(x), u - x>, unbiasedness gives E f(y') <= f(x) - (3/4) lr E|g|^2 + lr V,
    V = E|g - grad f(x)|^2 <= 2 v (2 L D(w) + H), H the sum of squares in Psi, and strong convexity
    E|z' - x*|^2 <= (1 - gamma mu) |z - x*|^2 - 2 gamma (f(x) - f*) + (2 gamma (1 - gamma mu) / theta) (<grad f(x), w - x> / 2
    + (1/2 - theta) <grad f(x), y - x>) + gamma^2 E|g|^2. The squares of g cancel, since 1 - gamma mu >= 1/2. In expectation
    H' <= (1 - alpha / 2) H + 4 p (1 + 2 p / alpha) L (D(w) + D(y)), and lr makes the factors of D(w) and D(y) negative.

    Args:
        sampler: Who takes part in each round.
        codec: C.
        lr: Step size, > 0; None means the largest above.
        probability: p, in (0, 1]; None means min {1, (alpha / 4) max {1, sqrt(1 / (8 v)) - 1}}, of the paper's form.
        mu: Strong convexity of f, > 0; None means sum_i lambda_i mu_i of the problem.

    Raises:
        UserError: Where the codec is biased, or L_i, mu > 0 or a bound for the cohorts are needed and not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.Adiana(t.Full(), t.codecs.Qsgd(bits=4)), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]
        400
    """

    sampler: Sampler
    codec: Codec = static()
    lr: Positive | None = None
    probability: Fraction | None = None
    mu: Positive | None = None

    def bind(self, problem):
        if None not in (self.lr, self.probability, self.mu):
            return self
        return replace(self, **adiana_steps(problem, self.sampler, self.codec, self.lr, self.probability, self.mu)._asdict())

    def start(self, ask, x):
        return AdianaState(x, x, x, zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return server.y

    def round(self, ask, server):
        y, z, w, h = server
        lr, p, mu = self._known
        theta = jnp.minimum(1 / 4, jnp.sqrt(lr * mu / p))
        gamma = lr / (2 * (theta + lr * mu))
        moves = jax.random.bernoulli(ask.key(), p)
        x = jax.tree.map(lambda z, w, y: theta * z + w / 2 + (1 / 2 - theta) * y, z, w, y)
        replies = ask_compressed(ask, self.sampler, self.differences, (x, w), self.codec, (x, w))
        ask.observe(replies)
        g, change = add(h, replies.average()[0]), replies.total()[1]
        z = jax.tree.map(lambda z, x, g: z + gamma * (mu * (x - z) - g), z, x, g)
        w = where(moves, y, w)
        return AdianaState(add(x, g, -lr), z, w, add(h, change, self._rate(x)))

    @on_client
    def differences(self, client, message):
        """C(grad f_i(x) - h_i) and C(grad f_i(w) - h_i)."""
        points, key = message
        slopes = tuple(add(client.grad(point), client.state, -1.0) for point in points)
        payload, (_, change) = compress(self.codec, slopes, client, key)
        return Done(payload, add(client.state, change, self._rate(points[0])), queries=2)

    @property
    def _known(self) -> tuple[Any, Any, Any]:
        """lr, p and mu, which `bind` sets where they are not given."""
        return self.lr, self.probability, self.mu

    def _rate(self, x) -> float:
        """Return the rate of the memories."""
        return 1 / (1 + variance_of(self.codec, x))
