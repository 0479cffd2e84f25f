"""A client's part of the proximal function phi, as the function of a client of its own."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.core.client import Client
from turnout.core.wrapped_client import WrappedClient


class PartOfPhi(WrappedClient):
    """A client with phi_i = f_i + (pull / 2) |. - centre|^2 in the place of f_i.

    Args:
        client: The client.
        state: Its private state for the algorithm.
        centre: Centre x of the proximal term.
        pull: 1 / (gamma W).
    """

    def __init__(self, client: Client, state: PyTree, centre: PyTree, pull: Any):
        super().__init__(client)
        self._centre, self._pull, self.state = centre, pull, state

    def _on(self, rows: Client) -> "PartOfPhi":
        return PartOfPhi(rows, self.state, self._centre, self._pull)

    def _quadratic(self, y: PyTree) -> Float[Array, ""]:
        """(pull / 2) |y - centre|^2."""
        offset = ravel_pytree(y)[0] - ravel_pytree(self._centre)[0]
        return self._pull / 2 * jnp.vdot(offset, offset)

    def _pulled(self, gradient: PyTree, y: PyTree) -> PyTree:
        """The gradient of phi_i at y, given that of f_i."""
        return jax.tree.map(lambda g, y, x: g + self._pull * (y - x), gradient, y, self._centre)

    def value(self, x):
        return self._client.value(x) + self._quadratic(x)

    def grad(self, x):
        return self._pulled(self._client.grad(x), x)

    def value_and_grad(self, x):
        value, gradient = self._client.value_and_grad(x)
        return value + self._quadratic(x), self._pulled(gradient, x)

    def hvp(self, x, v):
        return jax.tree.map(lambda h, v: h + self._pull * v, self._client.hvp(x, v), v)

    def hessian(self, x):
        hessian = self._client.hessian(x)
        return hessian + self._pull * jnp.eye(len(hessian))
