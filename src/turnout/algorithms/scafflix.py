"""Scafflix: FLIX with local steps, step sizes of the clients' own, and control variates."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from turnout.algorithms.flix import Optimum
from turnout.algorithms.mean_delivery import dual_step, exchange_solutions, initial_state
from turnout.client_solvers import LocalSolver
from turnout.client_solvers.base import fit_each, of_client
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler
from turnout.samplers.full_pass import full_pass


class ScafflixClient(NamedTuple):
    """A client's last x_i, its h_i before the step that its next message completes, and its optimum."""

    x: PyTree
    h: PyTree
    optimum: Optimum


@record
class Scafflix(Algorithm):
    """Scafflix: explicit mixtures and local steps (Yi, Condat and Richtarik, 2023, Algorithm 1).

    min_x sum_i lambda_i f_i(T_i(x)) with T_i(x) = alpha_i x + (1 - alpha_i) x_i*, x_i* = argmin f_i, by
    x_i <- x_i - (lr_i / alpha_i) (grad f_i(T_i(x_i)) - h_i), a random number of times; then x <- sum_i w_i x_i / sum_i w_i with
    w_i = lambda_i alpha_i^2 / lr_i, and h_i <- h_i + (p alpha_i / lr_i) (x - x_i), x_i <- x; h_i = 0 at first.

    This is `Scaffnew` on the functions f_i(T_i(.)), with the step size lr_i / alpha_i^2 for each client, and messages and lost
    replies are as there. So the sum that the steps keep, and that must be 0, is sum_i lambda_i alpha_i h_i and not sum_i h_i. A
    client finds x_i* and uses T_i(x) as in `Flix`.

    For mu_i-strongly convex, L_i-smooth f_i, any lambda_i and lr_i <= 1 / L_i,
    Psi = sum_i lambda_i (|T_i(x_i) - T_i(x*)|^2 / lr_i + (lr_i / p^2) |h_i - grad f_i(T_i(x*))|^2) falls as
    E Psi_t <= (1 - min(min_i lr_i mu_i, p^2))^t Psi_0 over t local steps, whatever the alpha_i, and
    however roughly the x_i* are found.

    Args:
        sampler: How many clients are asked at a time; a round is charged as ceil(n / m) arbitrary selections.
        solver: How a client finds x_i*.
        lr: lr_i, the step sizes of the clients, > 0: one number, or a list with one for each client.
        alpha: alpha_i, the share of x in the mixture, in (0, 1]: one number, or a list with one for each client.
        probability: p, the probability of a communication after a local step, in (0, 1].
        clients: The number of clients, which `bind` sets.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> algorithm = t.Scafflix(t.Nice(4), t.client_solvers.Bfgs(), lr=0.05, alpha=0.5, probability=0.5)
        >>> trace = t.run(algorithm, problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["vectors_up"]
        (5, 40)
    """

    sampler: Sampler
    solver: LocalSolver
    lr: Positive | list[Positive] | Float[np.ndarray, " n"]
    alpha: Fraction | list[Fraction] | Float[np.ndarray, " n"]
    probability: Fraction
    clients: Count | None = static(default=None, repr=False, kw_only=True)

    personalises = True

    def bind(self, problem):
        sampler = full_pass(self.sampler, problem.population)
        return replace(fit_each(self, problem, "lr", "alpha"), sampler=sampler, clients=problem.clients)

    def start(self, ask, x):
        return initial_state(x, self.clients, "lazy")

    def client_state(self, x):
        return ScafflixClient(x, zeros(x), Optimum.unknown(x))

    def output(self, server):
        return server.x

    def own_model(self, x, state):
        return state.optimum.mixed(x)

    def round(self, ask, server):
        steps = jax.random.geometric(ask.key(), self.probability, dtype="int32")
        weights = jnp.square(jnp.asarray(self.alpha)) / jnp.asarray(self.lr)
        return exchange_solutions(ask, ask.draw(self.sampler), server, self.descend, None, weights, steps)[0]

    @on_client
    def descend(self, client, message):
        """x_i after `steps` local steps from x, the mean owed to the client."""
        x, steps = message
        old, h, optimum = client.state
        optimum, queries = optimum.search(client, self.solver, self.alpha)
        rate = of_client(self.lr, client.id) / optimum.alpha
        h = dual_step(h, self.probability / rate, old, x)
        new = client.loop(steps, lambda x: add(x, add(client.grad(optimum.mixed(x)), h, -1.0), -rate), x)
        return Done(new, ScafflixClient(new, h, optimum), queries + steps)
