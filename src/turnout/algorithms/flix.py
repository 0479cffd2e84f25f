"""FLIX: each client uses a mixture of the shared parameters and its own optimum."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from turnout.client_solvers import LocalSolver, Tilt
from turnout.client_solvers.base import fit_each, of_client
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Client, Done
from turnout.core.records import Positive, Share, record
from turnout.core.tree import add, mixture
from turnout.samplers import Sampler


class Optimum(NamedTuple):
    """A client's own optimum x_i*, its alpha_i, and whether these are `found`; until then alpha_i is 1."""

    point: PyTree
    alpha: Float[Array, ""]
    found: Bool[Array, ""]

    @classmethod
    def unknown(cls, x: PyTree) -> "Optimum":
        """Return that of a client that was not asked yet.

        Args:
            x: Where its search will begin.
        """
        return cls(x, jnp.ones((), jnp.result_type(float)), jnp.zeros((), bool))

    def search(self, client: Client, solver: LocalSolver, alpha: Any) -> tuple["Optimum", Any]:
        """Return x_i*, searched for unless it is found already, and the number of queries.

        Args:
            client: The client.
            solver: How to search.
            alpha: One number, or one for each client [n].
        """

        def solve(carry):
            solved = solver.minimise(client, Tilt(), carry[0])
            return solved.point, jnp.asarray(solved.queries, "int32")

        # Not a branch, of which a cohort that is computed at once takes both sides: this loop is empty where all have theirs.
        point, queries = client.loop(1 - self.found.astype("int32"), solve, (self.point, jnp.zeros((), "int32")))
        return Optimum(point, of_client(alpha, client.id), jnp.ones((), bool)), queries

    def mixed(self, x: PyTree) -> PyTree:
        """Return T_i(x) = alpha_i x + (1 - alpha_i) x_i*."""
        return mixture(self.alpha, x, self.point)


@record
class Flix(Algorithm):
    """FLIX: gradient descent on explicit mixtures (Gasanov et al., 2022, Algorithm 1 without compression).

    min_x sum_i lambda_i f_i(T_i(x)) with T_i(x) = alpha_i x + (1 - alpha_i) x_i*, x_i* = argmin f_i, by
    x <- x - lr mean_{i in S} alpha_i grad f_i(T_i(x)).

    A client finds x_i* by its `solver` from x_0 when it is asked first, and keeps it. It uses T_i(x) with the last x of the
    server, and x itself before it is asked. With alpha_i = 1 this is gradient descent on f, with alpha_i = 0 each client uses
    its own optimum.

    Args:
        sampler: Who takes part in each round.
        solver: How a client finds x_i*.
        lr: Step size, > 0.
        alpha: alpha_i, the share of x in the mixture, in [0, 1]: one number, or a list with one for each client.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Flix(t.Nice(4), t.client_solvers.Bfgs(), lr=0.05, alpha=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"]
        20
    """

    sampler: Sampler
    solver: LocalSolver
    lr: Positive
    alpha: Share | list[Share] | Float[np.ndarray, " n"]

    personalises = True

    def bind(self, problem):
        return fit_each(self, problem, "alpha")

    def client_state(self, x):
        return Optimum.unknown(x)

    def own_model(self, x, state):
        return state.mixed(x)

    def round(self, ask, x):
        replies = ask(self.sampler, self.slope, x)
        ask.observe(replies)
        return add(x, replies.mean(), -self.lr)

    @on_client
    def slope(self, client, x):
        """alpha_i grad f_i(T_i(x))."""
        optimum, queries = client.state.search(client, self.solver, self.alpha)
        gradient = client.grad(optimum.mixed(x))
        return Done(jax.tree.map(lambda g: optimum.alpha * g, gradient), optimum, queries + 1)
