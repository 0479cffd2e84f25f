"""Scaffnew as a cohort solver: clients take a random number of local steps between exchanges."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Fraction, record
from turnout.core.tree import positive
from turnout.solvers.base import CohortSolver, StepResult, exchange, weighted_mean


class Skipped(NamedTuple):
    """A client's point z, control variate h and the server's point x it was told in the first exchange."""

    z: PyTree
    h: PyTree
    x: PyTree


@record
class Scaffnew(CohortSolver):
    """z_i <- z_i - lr (grad phi_i(z_i) - h_i), a random number of times; then y <- mean of z_i, h_i <- h_i + (p / lr) (y - z_i).

    Scaffnew (ProxSkip, Mishchenko et al., 2022, Algorithm 2) on phi / W, the mean of phi_i = f_i + |. - x|^2 / (2 gamma W). The
    number of local steps between two exchanges is geometric with mean 1 / p, p = `probability` (None: sqrt(mu' / L')), and
    lr = 1 / L', where mu' = mu + 1 / (gamma W), L' = L + 1 / (gamma W). Clients keep z_i, h_i and x while their cohort is asked.
    """

    probability: Fraction | None = None

    certifies = False

    def client_state(self, x):
        return Skipped(x, jax.tree.map(jnp.zeros_like, x), x)

    def start(self, phi, memory):
        return phi.centre, jnp.asarray(True)

    def step(self, ask, phi, state):
        y, first = state
        pull = phi.convexity / positive(phi.weight)
        convexity, smoothness = (bound / positive(phi.weight) for bound in self.bounds(phi))
        chance = jnp.sqrt(convexity / smoothness) if self.probability is None else jnp.asarray(self.probability)
        steps = jax.random.geometric(ask.key(), chance, dtype="int32")
        message = (phi.unravel(y), first, steps, pull, 1 / smoothness, chance)
        mean = ravel_pytree(weighted_mean(exchange(ask, phi, self.skip, message), phi.unravel(y)))[0]
        return StepResult((mean, jnp.asarray(False)), y, jnp.full_like(y, jnp.inf))

    def solution(self, state):
        return state[0]

    @on_client
    def skip(self, client, message):
        """z_i after the local steps that follow the server's mean y."""
        y, first, steps, pull, lr, chance = message
        z, h, x = client.state
        x = jax.tree.map(lambda x, y: jnp.where(first, y, x), x, y)
        h = jax.tree.map(lambda h, y, z: jnp.where(first, 0, h + chance / lr * (y - z)), h, y, z)

        def step(z):
            return jax.tree.map(lambda z, g, h, x: z - lr * (g + pull * (z - x) - h), z, client.grad(z), h, x)

        z = client.loop(steps, step, y)
        return Done(z, Skipped(z, h, x), steps)
