"""What the theorems need to know of a problem and a design, computed at the minimiser in double precision."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from turnout.errors import UserError
from turnout.problem import Problem
from turnout.samplers.base import Sampler
from turnout.theory.designs import convexity, variance

DENSE = 2000
"""Parameters up to which the Hessian is kept, as a matrix."""

TOGETHER = 64
"""Products with the Hessian that are computed at a time."""

MEMORY = 256 * 2**20
"""Bytes of client data that one computation works on at a time."""


class AtOptimum(NamedTuple):
    """x* as one vector, grad f_i(x*) of every client, and the Hessian of f there, None where it would be too large."""

    x: Float[np.ndarray, " d"]
    gradients: Float[np.ndarray, "n d"]
    hessian: Float[np.ndarray, "d d"] | None


class DesignConstants(NamedTuple):
    """mu_i and L_i [n], mu_AS, sigma^2_AS, |x_0 - x*|^2 and |grad f_i(x*)|^2 [n] (Cohort Squeeze, Theorem 1)."""

    convexity: Float[np.ndarray, " n"]
    smoothness: Float[np.ndarray, " n"]
    mu: float
    sigma2: float
    distance2: float
    gradient_norms2: Float[np.ndarray, " n"]

    @property
    def clients(self) -> int:
        return len(self.convexity)


def at_optimum(problem: Problem, optimum=None) -> AtOptimum:
    """Compute the derivatives at the minimiser of f: `optimum`, as `optimum.solve` returns it, or else found here."""
    # The engines stand above the theory, whose bounds algorithms use, so that they are imported late.
    from turnout.engines.storage import objective, store
    from turnout.optimum import solve

    found = solve(problem) if optimum is None else optimum
    with jax.enable_x64(True):
        storage = store(problem)
        flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, float), found.x))

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
    """Return `part(oracle, x, *v)` of every client, as vectors; v [d] are the client's rows of `own`, x is the same for all."""

    def one(arguments):
        i, *v = arguments
        return ravel_pytree(part(storage.oracle(i), x, *v))[0]

    count = storage.problem.clients
    chunk = max(1, MEMORY // max(storage.bytes_per_client(), 1))
    return jax.lax.map(one, (jnp.arange(count, dtype="int32"), *own), batch_size=min(chunk, count))


def constants_of(problem: Problem, sampler: Sampler, at: AtOptimum | None = None, seed: int = 0) -> DesignConstants:
    """Return the constants of Theorem 1 for `problem` under the bound `sampler`; x_0 is the start that `seed` makes.

    `at` saves the work of finding the minimiser. Raises `UserError` where f is not strongly convex.
    """
    known = problem.constants() if problem.strongly_convex else None
    if known is None or not np.all(known.convexity > 0):
        raise UserError(f"the theory needs strongly convex f_i, which {type(problem).__name__} does not promise: give it mu > 0")
    at = at_optimum(problem) if at is None else at
    with jax.enable_x64(True):
        start = np.asarray(ravel_pytree(problem.start(jax.random.key(seed)))[0])
    return DesignConstants(
        convexity=np.asarray(known.convexity),
        smoothness=np.asarray(known.smoothness),
        mu=float(convexity(sampler, problem.population, np.asarray(known.convexity))),
        sigma2=float(variance(sampler, problem.population, at.gradients)),
        distance2=float(np.sum((start - at.x) ** 2)),
        gradient_norms2=np.sum(at.gradients**2, axis=1),
    )
