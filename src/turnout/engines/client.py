"""The client of a problem written in JAX."""

from collections.abc import Callable

from jax import lax

from turnout.exchange import Client
from turnout.problem import Problem, derivative, row_sum


class JaxClient(Client):
    """A client whose loss is a JAX function: `oracle(order, x, *v)` gives "value", "value_and_grad" or "hvp" of f_i."""

    def __init__(self, id, key, state, oracle: Callable):
        self.id, self.key, self.state = id, key, state
        self._oracle = oracle

    def value(self, x):
        return self._oracle("value", x)

    def value_and_grad(self, x):
        return self._oracle("value_and_grad", x)

    def hvp(self, x, v):
        return self._oracle("hvp", x, v)

    def loop(self, count, body, carry):
        return lax.fori_loop(0, count, lambda _, carry: body(carry), carry)

    def cond(self, predicate, then, otherwise, carry):
        return lax.cond(predicate, then, otherwise, carry)


def rows_oracle(problem: Problem, rows, weights) -> Callable:
    """Return `oracle(order, x, *v)` of f_i for rows held in one piece, with weights [b] that sum to one."""

    def oracle(order, x, *v):
        return derivative(order, lambda y: row_sum(problem, y, rows, weights) + problem.regulariser(y))(x, *v)

    return oracle
