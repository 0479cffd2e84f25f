"""The client of a problem written in JAX."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from turnout.exchange import Client
from turnout.problem import Problem, derivative, row_sum
from turnout.rows import take


class JaxClient(Client):
    """A client whose loss is a JAX function: `oracle(order, x, *v)` gives "value", "value_and_grad" or "hvp" of f_i, and
    `oracle.sample(key, count)` such an oracle of some of its rows."""

    def __init__(self, id, key, state, oracle: Callable):
        self.id, self.key, self.state = id, key, state
        self._oracle = oracle

    def value(self, x):
        return self._oracle("value", x)

    def value_and_grad(self, x):
        return self._oracle("value_and_grad", x)

    def hvp(self, x, v):
        return self._oracle("hvp", x, v)

    def hessian(self, x):
        flat, unravel = ravel_pytree(x)
        return jax.vmap(lambda v: ravel_pytree(self.hvp(x, unravel(v)))[0])(jnp.eye(flat.size, dtype=flat.dtype))

    def batch(self, key, size):
        return JaxClient(self.id, self.key, self.state, self._oracle.sample(key, size))

    def loop(self, count, body, carry):
        return lax.fori_loop(0, count, lambda _, carry: body(carry), carry)

    def cond(self, predicate, then, otherwise, carry):
        return lax.cond(predicate, then, otherwise, carry)


class RowsOracle:
    """f_i of a client whose rows are held in one piece; row r of the first `size` counts with `weights` [b]."""

    def __init__(self, problem: Problem, rows, weights, size):
        self._problem, self._rows, self._weights, self._size = problem, rows, weights, size

    def __call__(self, order, x, *v):
        def f(y):
            return row_sum(self._problem, y, self._rows, self._weights) + self._problem.regulariser(y)

        return derivative(order, f)(x, *v)

    def sample(self, key, count: int) -> "RowsOracle":
        """The mean over `count` of the rows drawn uniformly, with replacement."""
        return sampled(self._problem, self._rows, jax.random.randint(key, (count,), 0, self._size, "int32"))


def sampled(problem: Problem, rows, indices) -> RowsOracle:
    """Return the oracle of the mean over the rows `indices` [b]."""
    count = indices.size
    return RowsOracle(problem, take(rows, indices), jnp.full(count, 1 / count), count)
