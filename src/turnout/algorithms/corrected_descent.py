"""Local gradient descent that replaces the client's own gradient at the start by an estimate of grad f."""

from jaxtyping import PyTree

from turnout.core.client import Client
from turnout.core.tree import add


def corrected_descent(client: Client, x: PyTree, gradient: PyTree, estimate: PyTree, lr, steps) -> PyTree:
    """Return y - x, y being x after `steps` steps y <- y - lr (grad f_i(y) - grad f_i(x) + v).

    The first step is -lr v and needs no query; each further step makes one query.

    Args:
        client: The client i.
        x: The parameters to start from.
        gradient: grad f_i(x).
        estimate: v, an estimate of grad f(x).
        lr: Step size.
        steps: Number of steps, >= 1.
    """
    correction = add(estimate, gradient, -1.0)
    y = client.loop(steps - 1, lambda y: add(y, add(client.grad(y), correction), -lr), add(x, estimate, -lr))
    return add(y, x, -1.0)
