"""FLIX: each client uses a mixture of the shared parameters and its own optimum."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from turnout.client_solvers import LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Positive, Share, record
from turnout.core.tree import add
from turnout.samplers import Sampler


class Optimum(NamedTuple):
    """A client's own optimum, and whether it is `found`; until then it is x_0."""

    point: PyTree
    found: Bool[Array, ""]


@record
class Flix(Algorithm):
    """FLIX: gradient descent on explicit mixtures (Gasanov et al., 2022, Algorithm 1 without compression).

    min_x sum_i lambda_i f_i(T_i(x)) with T_i(x) = alpha x + (1 - alpha) x_i*, x_i* = argmin f_i, by
    x <- x - lr mean_{i in S} alpha grad f_i(T_i(x)).

    A client finds x_i* by its `solver` from x_0 when it is asked first, and keeps it. It uses T_i(x) with the last x of the
    server; before it is asked x_0 stands for x_i*. With alpha = 1 this is gradient descent on f, with alpha = 0 each client uses
    its own optimum.

    Args:
        sampler: Who takes part in each round.
        solver: How a client finds x_i*.
        lr: Step size, > 0.
        alpha: Share of x in the mixture, in [0, 1].

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
    alpha: Share

    personalises = True

    def client_state(self, x):
        return Optimum(x, jnp.zeros((), bool))

    def own_model(self, x, state):
        return self._mixture(x, state.point)

    def round(self, ask, x):
        replies = ask(self.sampler, self.slope, x)
        ask.observe(replies)
        return add(x, replies.mean(), -self.lr)

    @on_client
    def slope(self, client, x):
        """alpha grad f_i(T_i(x))."""
        point, found = client.state

        def solve(carry):
            solved = self.solver.minimise(client, Tilt(), carry[0])
            return solved.point, jnp.asarray(solved.queries, "int32")

        # Not a branch, of which a cohort that is computed at once takes both sides: this loop is empty where all have theirs.
        point, queries = client.loop(1 - found.astype("int32"), solve, (point, jnp.zeros((), "int32")))
        gradient = client.grad(self._mixture(x, point))
        return Done(jax.tree.map(lambda g: self.alpha * g, gradient), Optimum(point, jnp.ones((), bool)), queries + 1)

    def _mixture(self, x, point):
        return jax.tree.map(lambda x, point: self.alpha * x + (1 - self.alpha) * point, x, point)
