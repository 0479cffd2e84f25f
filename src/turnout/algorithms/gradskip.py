"""GradSkip: Scaffnew whose clients with benign functions stop early and wait for the next communication."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from turnout.algorithms.scaffnew import PointAndVariate, Scaffnew
from turnout.client_solvers.base import fit_each, of_client
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Share, record
from turnout.core.tree import add


@record
class GradSkip(Scaffnew):
    """GradSkip: Scaffnew with fewer steps at clients with benign f_i (Maranjyan, Safaryan and Richtarik, 2022, Algorithm 1).

    z_i <- z_i - lr (grad f_i(z_i) - h_i), as in `Scaffnew`, while a coin that shows 1 with probability q_i = `going` does so.
    Else g_i = grad f_i(z_i) takes the place of h_i, and z_i stays until the communication, g_i = h_i at clients that did not
    stop. Then x <- sum_i lambda_i (z_i - (lr / p) (g_i - h_i)) and h_i <- g_i + (p / lr) (x - z_i), z_i <- x; h_i = 0 at first.

    The paper sends z_i - (lr / p) g_i, which has the same mean since sum_i lambda_i h_i = 0, and keeps that sum at 0 where no
    reply is lost; here it stays 0 in any case. A client makes 1 / (1 - q_i (1 - p)) queries a round on average, in the place of
    1 / p. With q_i = 1 it is `Scaffnew`.

    For mu-strongly convex, L_i-smooth f_i, equal lambda_i and lr <= min_i p^2 / (L_i (1 - q_i (1 - p^2))),
    Psi = sum_i |z_i - x*|^2 + (lr / p)^2 |h_i - h_i*|^2, h_i* = grad f_i(x*), falls in expectation by
    1 - min(lr mu, 1 - max_i q_i (1 - p^2)) in a local step. With kappa_i = L_i / mu, p = kappa^(-1/2) and
    q_i = (1 - 1 / kappa_i) / (1 - 1 / kappa) for the largest kappa, lr may be 1 / L, so that the rounds are as few as those of
    Scaffnew, and the queries of client i at most min(kappa_i, 1 / p) a round.

    Args:
        sampler: How many clients are asked at a time; a round is charged as ceil(n / m) arbitrary selections.
        lr: Step size of the clients, > 0.
        probability: p, the probability of a communication after a local step, in (0, 1].
        going: q_i, one number in [0, 1] or a list with one for each client; None means those above.
        clients: The number of clients, which `bind` sets.

    Raises:
        UserError: Where mu > 0 and L_i are needed and not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.GradSkip(t.Nice(4), lr=0.05, probability=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["draws_arbitrary"]
        (5, 10)
    """

    going: Share | list[Share] | Float[np.ndarray, " n"] | None = None

    def bind(self, problem):
        given = replace(self, going=_best(problem)) if self.going is None else self
        return Scaffnew.bind(fit_each(given, problem, "going"), problem)

    @on_client
    def skip(self, client, message):
        """z_i - (lr / p) (g_i - h_i) after at most `steps` local steps from x, the mean owed to the client."""
        x, steps = message
        z, h = client.state
        rate = jnp.asarray(self.probability / self.lr)
        h = jax.tree.map(lambda h, z, x: h - rate * (z - x), h, z, x)
        last = _last_step(client.key, of_client(self.going, client.id), steps + 1)
        stops = last <= steps
        z = client.loop(last - 1, lambda z: add(z, add(client.grad(z), h, -1.0), -self.lr), x)
        # No or one query; a branch would copy the rows of all clients where these differ in size.
        g = client.loop(stops.astype("int32"), lambda _: client.grad(z), h)
        reply = jax.tree.map(lambda z, g, h: z - (g - h) / rate, z, g, h)
        return Done(reply, PointAndVariate(z, g), jnp.minimum(last, steps))


def _best(problem) -> Float[np.ndarray, " n"]:
    """Return the q_i of theory."""
    constants = problem.constants()
    mu = 0.0 if constants is None else float(np.min(constants.convexity))
    if mu <= 0:
        raise UserError(f"no mu_i > 0 of {type(problem).__name__} are known, so the q_i do not follow: give going")
    shares = 1 - mu / np.asarray(constants.smoothness, float)
    largest = shares.max()
    return shares / largest if largest > 0 else np.ones_like(shares)


def _last_step(key: PyTree, q: Float[Array, ""], most: Any) -> Int[Array, ""]:
    """Return the number of the first step, from 1, whose coin shows 0, or `most` if that is less."""
    luck = jnp.log(jax.random.uniform(key, (), q.dtype, minval=jnp.finfo(q.dtype).tiny))
    before = luck / jnp.log(jnp.where((q > 0) & (q < 1), q, 0.5))
    before = jnp.where(q >= 1, jnp.inf, jnp.where(q <= 0, 0, before))
    return jnp.minimum(before, jnp.asarray(most - 1, q.dtype)).astype("int32") + 1
