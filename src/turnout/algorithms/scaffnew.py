"""Scaffnew: all clients take a random number of local steps between exchanges."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.mean_delivery import dual_step, exchange_solutions, initial_state
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler
from turnout.samplers.full_pass import full_pass


class Skipped(NamedTuple):
    """A client's last z_i, and its h_i up to the step that is owed for it."""

    z: PyTree
    h: PyTree


@record
class Scaffnew(Algorithm):
    """z_i <- z_i - lr (grad f_i(z_i) - h_i), a random number of times; then x <- sum_i lambda_i z_i, and with it

    h_i <- h_i + (p / lr) (x - z_i), z_i <- x; h_i = 0 at first. Scaffnew (Mishchenko et al., 2022, Algorithm 2): the number is
    geometric with mean 1 / p, p = `probability`, so that a round goes from one communication to the next. All clients take part,
    as many at a time as `sampler` draws. A client makes its step of h_i when it gets x with its next message. A lost reply is
    left out of the mean, and the client goes on from the x that it had, so that sum_i lambda_i h_i stays 0.

    For mu-strongly convex, L-smooth f_i, equal lambda_i and lr <= 1 / L, Psi = sum_i |z_i - x*|^2 + (lr / p)^2 |h_i - h_i*|^2,
    h_i* = grad f_i(x*), falls as E Psi_t <= (1 - min(lr mu, p^2))^t Psi_0 over t local steps; p = sqrt(mu / L) needs the fewest
    communications.
    """

    sampler: Sampler
    lr: Positive
    probability: Fraction
    clients: Count | None = static(default=None, repr=False)

    is_dual = True

    def bind(self, problem):
        return replace(self, sampler=full_pass(self.sampler, problem.population), clients=problem.clients)

    def start(self, ask, x):
        return initial_state(x, self.clients, "lazy")

    def output(self, server):
        return server.x

    def client_state(self, x):
        return Skipped(x, zeros(x))

    def round(self, ask, server):
        steps = jax.random.geometric(ask.key(), self.probability, dtype="int32")
        # All replies weigh lambda_i, and their mean goes down with the next message.
        return exchange_solutions(ask, ask.draw(self.sampler), server, self.skip, None, 1.0, steps)[0]

    @on_client
    def skip(self, client, message):
        """z_i after `steps` steps from x."""
        x, steps = message
        h = self._corrected(client, x).h
        z = client.loop(steps, lambda z: add(z, add(client.grad(z), h, -1.0), -self.lr), x)
        return Done(z, Skipped(z, h), steps)

    def _corrected(self, client, mean):
        z, h = client.state
        return Skipped(z, dual_step(h, jnp.asarray(self.probability / self.lr), z, mean))
