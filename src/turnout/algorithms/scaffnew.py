"""Scaffnew: all clients take a random number of local steps between two communications."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.messages import Each
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler
from turnout.samplers.full_pass import full_pass


class ScaffnewState(NamedTuple):
    """x, and the mean `owed` to each client [n, ...]: that of the last exchange that it answered, x_0 before."""

    x: PyTree
    owed: PyTree


class PointAndVariate(NamedTuple):
    """A client's last z_i, and its h_i before the step that its next message completes."""

    z: PyTree
    h: PyTree


@record
class Scaffnew(Algorithm):
    """Scaffnew: a random number of local steps with control variates (Mishchenko et al., 2022, Algorithm 2).

    z_i <- z_i - lr (grad f_i(z_i) - h_i), a random number of times; then x <- sum_i lambda_i z_i and
    h_i <- h_i + (p / lr) (x - z_i), z_i <- x; h_i = 0 at first.

    The number of steps is geometric with mean 1 / p, so that a round goes from one communication to the next. All clients take
    part, as many at a time as the sampler draws. A client makes its step of h_i when it receives x with its next message. A lost
    reply is left out of the mean, and the client goes on from the x that it had, so that sum_i lambda_i h_i stays 0.

    For mu-strongly convex, L-smooth f_i, equal lambda_i and lr <= 1 / L, Psi = sum_i |z_i - x*|^2 + (lr / p)^2 |h_i - h_i*|^2,
    h_i* = grad f_i(x*), falls as E Psi_t <= (1 - min(lr mu, p^2))^t Psi_0 over t local steps; p = sqrt(mu / L) needs the fewest
    communications.

    Args:
        sampler: How many clients are asked at a time; a round is charged as ceil(n / m) arbitrary selections.
        lr: Step size of the clients, > 0.
        probability: p, the probability of a communication after a local step, in (0, 1].
        clients: The number of clients, which `bind` sets.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Scaffnew(t.Nice(4), lr=0.05, probability=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["draws_arbitrary"]
        (5, 10)
    """

    sampler: Sampler
    lr: Positive
    probability: Fraction
    clients: Count | None = static(default=None, repr=False, kw_only=True)

    is_dual = True

    def bind(self, problem):
        return replace(self, sampler=full_pass(self.sampler, problem.population), clients=problem.clients)

    def start(self, ask, x):
        return ScaffnewState(x, jax.tree.map(lambda x: jnp.broadcast_to(x, (self.clients, *jnp.shape(x))), x))

    def client_state(self, x):
        return PointAndVariate(x, zeros(x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        steps = jax.random.geometric(ask.key(), self.probability, dtype="int32")
        cohort = ask.draw(self.sampler)
        own = Each(jax.tree.map(lambda owed: owed[cohort.ids], server.owed))
        replies = ask(cohort, self.skip, (own, steps))
        x = if_any(replies, replies.mean(), server.x)
        ask.observe(replies.map(lambda _, z: add(z, x, -1.0)))
        answered = jnp.where(replies.answered, cohort.ids, self.clients)
        return ScaffnewState(x, jax.tree.map(lambda owed, x: owed.at[answered].set(x, mode="drop"), server.owed, x))

    @on_client
    def skip(self, client, message):
        """z_i after `steps` local steps from x, the mean owed to the client."""
        x, steps = message
        z, h = client.state
        rate = jnp.asarray(self.probability / self.lr)
        h = jax.tree.map(lambda h, z, x: h - rate * (z - x), h, z, x)
        z = client.loop(steps, lambda z: add(z, add(client.grad(z), h, -1.0), -self.lr), x)
        return Done(z, PointAndVariate(z, h), steps)
