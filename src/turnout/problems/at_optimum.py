"""Gradients and Hessian of the clients' functions at the minimiser of f, in double precision."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from turnout.problems.base import Problem
from turnout.problems.optimum import solve
from turnout.problems.storage.layout import objective
from turnout.problems.storage.store import store

DENSE = 2000
"""The largest number of parameters for which the Hessian is computed."""

TOGETHER = 64
"""Hessian-vector products computed at once."""

MEMORY = 256 * 2**20
"""Bytes of client data that are worked on at once."""


class AtOptimum(NamedTuple):
    """Derivatives at the minimiser of f.

    Args:
        x: x* as one vector [d].
        gradients: grad f_i(x*) of every client [n, d].
        hessian: The Hessian of f at x* [d, d]; None for more than `DENSE` parameters.
    """

    x: Float[np.ndarray, " d"]
    gradients: Float[np.ndarray, "n d"]
    hessian: Float[np.ndarray, "d d"] | None


def at_optimum(problem: Problem, optimum=None) -> AtOptimum:
    """Return the derivatives at the minimiser of f, which is `optimum`, or computed here if None.

    Args:
        problem: The problem.
        optimum: The minimiser; None computes it.
    """
    optimum = solve(problem) if optimum is None else optimum
    with jax.enable_x64(True):
        storage = store(problem)
        flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, float), optimum.x))

        @jax.jit
        def gradients(storage, x):
            return each_client(storage, lambda oracle, x: oracle("value_and_grad", unravel(x))[1], x)

        @jax.jit
        def hessian(storage, x):
            def gradient(x):
                return ravel_pytree(objective(storage, "value_and_grad", unravel(x))[1])[0]

            directions = jnp.eye(x.size, dtype=x.dtype)
            return jax.lax.map(lambda v: jax.jvp(gradient, (x,), (v,))[1], directions, batch_size=min(TOGETHER, x.size))

        matrix = np.asarray(hessian(storage, flat)) if flat.size <= DENSE else None
        return AtOptimum(np.asarray(flat), np.asarray(gradients(storage, flat)), matrix)


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
    return jax.lax.map(one, (jnp.arange(count, dtype="int32"), *own), batch_size=min(chunk, count))
