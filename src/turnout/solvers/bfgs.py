"""Quasi-Newton cohort solvers."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from turnout.core.records import Count, record, static
from turnout.solvers.line_search import LineSearch


class Inverse(NamedTuple):
    matrix: Float[Array, "d d"]
    updated: Bool[Array, ""]


@record
class Bfgs(LineSearch):
    """y <- y - H grad phi(y), with H the BFGS approximation of the inverse Hessian (Nocedal and Wright, Algorithm 6.1).

    H starts at 1 / (W L + 1 / gamma) and takes the scale of the first pair of a step and its change of gradient.
    """

    def learn(self, phi):
        d = phi.centre.size
        start = jnp.eye(d, dtype=phi.centre.dtype) / self.bounds(phi)[1]
        return Inverse(start, jnp.asarray(False))

    def direct(self, ask, phi, state, new, reply):
        learnt = updated_inverse(state.memory, state.step, new.gradient - state.gradient)
        memory = jax.tree.map(lambda a, b: jnp.where(jnp.isfinite(state.value), a, b), learnt, state.memory)
        return memory, -memory.matrix @ new.gradient


def updated_inverse(inverse: Inverse, step: Float[Array, " d"], change: Float[Array, " d"]) -> Inverse:
    """Return H after the pair (step, change of gradient); a pair without curvature is skipped."""
    curvature, square = jnp.vdot(step, change), jnp.vdot(change, change)
    useful = curvature > jnp.finfo(step.dtype).eps * square
    rho = 1 / jnp.where(useful, curvature, 1)
    scale = curvature / jnp.where(useful, square, 1)
    start = jnp.where(inverse.updated, inverse.matrix, scale * jnp.eye(step.size, dtype=step.dtype))
    product = start @ change
    matrix = (
        start
        - rho * (jnp.outer(step, product) + jnp.outer(product, step))
        + rho * (rho * jnp.vdot(change, product) + 1) * jnp.outer(step, step)
    )
    return Inverse(jnp.where(useful, matrix, inverse.matrix), useful | inverse.updated)


@record
class Lbfgs(LineSearch):
    """y <- y - H grad phi(y), with H the limited-memory BFGS approximation from the last `pairs` steps (optax).

    For parameters too many for the d x d matrix of `Bfgs` (Nocedal and Wright, Algorithm 7.4).
    """

    pairs: Count = static(default=10)

    def learn(self, phi):
        return self._lbfgs().init(phi.centre)

    def direct(self, ask, phi, state, new, reply):
        # The library mixes integers of 32 and 64 bits.
        with jax.numpy_dtype_promotion("standard"):
            step, memory = self._lbfgs().update(new.gradient, state.memory, new.y)
        return memory, jnp.where(jnp.isfinite(state.value), -jnp.asarray(step), self.descent(phi, new.gradient))

    def _lbfgs(self):
        # Slow to import.
        import optax

        return optax.scale_by_lbfgs(memory_size=self.pairs)
