"""f and the clients' functions of one vector, and their derivatives."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.core.compiling import program
from turnout.core.seeds import host_key
from turnout.core.tree import on_device
from turnout.problems.base import Problem
from turnout.problems.storage.layout import Storage, objective
from turnout.problems.storage.store import store

TOGETHER = 64
"""Hessian-vector products computed at once."""

MEMORY = 256 * 2**20
"""Bytes of client data that are worked on at once."""

SMALL = 10**10
"""Rows times d^2 up to which a Hessian takes about a second at most."""

SMALL_OUTPUT = 2**22
"""Numbers of the clients' gradients up to which returning zeros in their place costs little."""

Vector = Float[np.ndarray, " d"]


class Derivatives:
    """Derivatives of f and of the f_i at vectors x [d]; problems of one type and one shape share the programs.

    Args:
        problem: The problem.
        double: Whether they are computed in 64 bits.

    Attributes:
        size: d, the number of parameters.
        small: Whether the Hessian costs little, so that the first and second derivatives are one program.
    """

    def __init__(self, problem: Problem, double: bool = True):
        self._double = double
        with jax.enable_x64(double):
            self._storage = jax.tree.map(on_device, store(problem))
            self._shapes = shapes_of(problem)
        self.size = sum(leaf.size for leaf in jax.tree.leaves(self._shapes))
        self.small = problem.sizes.sum() * self.size**2 <= SMALL and problem.clients * self.size <= SMALL_OUTPUT

    def of_f(self, x: Vector) -> tuple[float, Vector]:
        """Return f(x) and grad f(x)."""
        value, gradient, *_ = self._run(_small, x, False) if self.small else self._run(_along, x, x, False)
        return float(value), np.asarray(gradient)

    def along(self, x: Vector, v: Vector) -> Vector:
        """Return the Hessian of f at x times v."""
        return np.asarray(self._run(_along, x, v, True)[2])

    def second(self, x: Vector) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "d d"]]:
        """Return grad f_i(x) of every client and the Hessian of f at x."""
        gradients, hessian = self._run(_small, x, True)[2:] if self.small else self._run(_second, x)
        return np.asarray(gradients), np.asarray(hessian)

    def of_clients(self, x: Vector) -> Float[np.ndarray, "n d"]:
        """Return grad f_i(x) of every client."""
        return np.asarray(self._run(_of_clients, x))

    def of_clients_along(self, x: Vector, v: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return of every client the Hessian of f_i at x times its row of v."""
        return np.asarray(self._run(_of_clients_along, x, v))

    def tree(self, x: Vector) -> PyTree:
        """Return a vector as parameters."""
        leaves, structure = jax.tree.flatten(self._shapes)
        ends = np.cumsum([leaf.size for leaf in leaves])
        parts = [x[end - leaf.size : end].reshape(leaf.shape) for leaf, end in zip(leaves, ends, strict=True)]
        return jax.tree.unflatten(structure, parts)

    def _run(self, compiled: Callable, *arguments):
        with jax.enable_x64(self._double):
            return compiled(self._storage, *arguments)


def vector(point: PyTree) -> Vector:
    """Return parameters as one vector."""
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(point)])


def shapes_of(problem: Problem) -> PyTree:
    """Return shapes and types of the parameters, which are not drawn."""
    return jax.eval_shape(lambda: problem.start(host_key(0)))


def _of_vector(storage: Storage) -> Callable[[Float[Array, " d"]], PyTree]:
    """Return the function from vectors to parameters."""
    return ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes_of(storage.problem)))[1]


def _f(storage: Storage, x: Float[Array, " d"]) -> tuple[Float[Array, ""], Float[Array, " d"]]:
    """Return f and its gradient."""
    value, gradient = objective(storage, "value_and_grad", _of_vector(storage)(x))
    return value, ravel_pytree(gradient)[0]


@partial(program)
def _small(storage, x, second):
    """Return f, its gradient, and where `second` the gradient of each client and the Hessian of f, else zeros."""

    def none(x):
        return jnp.zeros((storage.problem.clients, x.size)), jnp.zeros((x.size, x.size))

    return *_f(storage, x), *lax.cond(second, partial(_seconds, storage), none, x)


@partial(program)
def _along(storage, x, v, wanted):
    """Return f, its gradient, and where `wanted` the Hessian times v, else 0."""

    def both(x, v):
        (value, gradient), (_, product) = jax.jvp(partial(_f, storage), (x,), (v,))
        return value, gradient, product

    return lax.cond(wanted, both, lambda x, v: (*_f(storage, x), jnp.zeros_like(x)), x, v)


@partial(program)
def _of_clients(storage, x):
    unravel = _of_vector(storage)
    return each_client(storage, lambda oracle, x: oracle("value_and_grad", unravel(x))[1], x)


@partial(program)
def _of_clients_along(storage, x, v):
    unravel = _of_vector(storage)
    return each_client(storage, lambda oracle, x, v: oracle("hvp", unravel(x), unravel(v)), x, v)


def _seconds(storage, x):
    """Return the gradient of each client and the Hessian of f."""

    def product(v):
        return jax.jvp(lambda x: _f(storage, x)[1], (x,), (v,))[1]

    unravel = _of_vector(storage)
    gradients = each_client(storage, lambda oracle, x: oracle("value_and_grad", unravel(x))[1], x)
    return gradients, lax.map(product, jnp.eye(x.size, dtype=x.dtype), batch_size=min(TOGETHER, x.size))


_second = program(_seconds)


def each_client(storage, part: Callable, x: Float[Array, " d"], *own: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Return the vector `part(oracle, x, *v)` of every client, v [d] being the client's rows of `own`; x is shared.

    Args:
        storage: Rows of the problem in a layout of the engine.
        part: Function of a client's oracle, x and the client's vectors.
        x: Parameters [d], the same for all clients.
        *own: Vectors of each client [n, d].
    """

    def one(arguments):
        i, *v = arguments
        return ravel_pytree(part(storage.oracle(i), x, *v))[0]

    count = storage.problem.clients
    chunk = max(1, MEMORY // max(storage.bytes_per_client(), 1))
    return lax.map(one, (jnp.arange(count, dtype="int32"), *own), batch_size=min(chunk, count))
