"""Acc-S-DANE: S-DANE from an extrapolated point."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.sdane import SDane
from turnout.core.records import record
from turnout.core.replies import if_any


class AccSDaneState(NamedTuple):
    """The parameters x, the centre v, and the sum A of the step sizes a."""

    x: PyTree
    v: PyTree
    total: Float[Array, ""]


@record
class AccSDane(SDane):
    """Acc-S-DANE, accelerated S-DANE (Jiang, Rodomanov and Stich, 2024, Algorithm 2).

    y = (A x + a v) / (A + a), with a > 0 the root of lam a^2 = (A + a) B, B = 1 + mu A, and A = 0 at first;
    x <- mean_{i in S} x_i, x_i as in `SDane` with y in the place of v;
    v <- (B v + a mu x - a mean_{i in S} grad f_i(x_i)) / (B + a mu); A <- A + a.

    Under the conditions of `SDane`, A_t (f(x_t) - f(x*)) + B_t / 2 |v_t - x*|^2 never grows, so that

        f(x_t) - f(x*) <= |x_0 - x*|^2 / (2 A_t) with A_t >= t^2 / (4 lam),

    as sqrt(A_t) - sqrt(A_{t-1}) >= a / (2 sqrt(A_t)) = sqrt(B_{t-1} / lam) / 2. If mu > 0, B grows with A, and A_t is geometric.

    Args:
        sampler: Draws the cohort S of each round.
        solver: Finds x_i at the clients.
        lam: Weight of the proximal term; theory wants 2 delta.
        mu: Strong convexity of the f_i, >= 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.AccSDane(t.Nice(4), t.client_solvers.NewtonCg(), lam=10.0, mu=1.0), problem, rounds=10)
        >>> trace.ledger.totals()["vectors_down"], trace.ledger.totals()["vectors_up"]
        (120, 120)
    """

    def start(self, ask, x):
        return AccSDaneState(x, x, jnp.zeros((), jax.tree.leaves(x)[0].dtype))

    def round(self, ask, server):
        x, v, total = server
        weight = 1 + self.mu * total
        half = weight / (2 * self.lam)
        step = half + jnp.sqrt(half * half + total * weight / self.lam)
        y = jax.tree.map(lambda x, v: (total * x + step * v) / (total + step), x, v)
        replies, x, slope = self.proximal_steps(ask, y)
        return if_any(replies, AccSDaneState(x, self.centre(v, weight / step, x, slope, self.mu), total + step), server)
