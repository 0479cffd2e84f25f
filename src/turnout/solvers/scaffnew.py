"""Scaffnew as a cohort solver: clients take a random number of local steps between exchanges."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Fraction, record
from turnout.core.tree import positive, where
from turnout.solvers.base import CohortSolver, StepResult, exchange, weighted_mean


class ScaffnewClient(NamedTuple):
    """A client's point z, its control variate h, and the centre x that it received in the first exchange."""

    z: PyTree
    h: PyTree
    x: PyTree


@record
class Scaffnew(CohortSolver):
    """Scaffnew on a proximal problem: random numbers of local steps with control variates (Mishchenko et al., 2022, Algorithm 2).

    z_i <- z_i - lr (grad phi_i(z_i) - h_i), a random number of times; then y <- mean of z_i, h_i <- h_i + (p / lr) (y - z_i).

    phi / W is the mean of phi_i = f_i + |. - x|^2 / (2 gamma W). The number of local steps between two exchanges is geometric
    with mean 1 / p, and lr = 1 / L', L' = L + 1 / (gamma W). Clients keep z_i, h_i and x while their cohort is asked.

    Args:
        smoothness: L; None takes max_i L_i of the problem.
        convexity: mu; None takes min_i mu_i of the problem.
        probability: p, in (0, 1]; None means sqrt(mu' / L'), mu' = mu + 1 / (gamma W).

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.Scaffnew(), gamma=0.5, inner=2), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        10
    """

    probability: Fraction | None = None

    certifies = False

    def client_state(self, x):
        return ScaffnewClient(x, jax.tree.map(jnp.zeros_like, x), x)

    def start(self, phi, memory):
        return phi.centre, jnp.asarray(True)

    def step(self, ask, phi, state):
        y, first = state
        pull = phi.convexity / positive(phi.weight)
        convexity, smoothness = (bound / positive(phi.weight) for bound in self.bounds(phi))
        probability = jnp.sqrt(convexity / smoothness) if self.probability is None else jnp.asarray(self.probability)
        steps = jax.random.geometric(ask.key(), probability, dtype="int32")
        message = (phi.unravel(y), first, steps, pull, 1 / smoothness, probability)
        mean = ravel_pytree(weighted_mean(exchange(ask, phi, self.skip, message), phi.unravel(y)))[0]
        return StepResult((mean, jnp.asarray(False)), y, jnp.full_like(y, jnp.inf))

    def solution(self, state):
        return state[0]

    @on_client
    def skip(self, client, message):
        """z_i after the local steps that follow the server's mean y."""
        y, first, steps, pull, lr, probability = message
        z, h, x = client.state
        x = where(first, y, x)
        h = jax.tree.map(lambda h, y, z: jnp.where(first, 0, h + probability / lr * (y - z)), h, y, z)

        def step(z):
            return jax.tree.map(lambda z, g, h, x: z - lr * (g + pull * (z - x) - h), z, client.grad(z), h, x)

        z = client.loop(steps, step, y)
        return Done(z, ScaffnewClient(z, h, x), steps)
