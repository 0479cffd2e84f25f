"""Quasi-Newton cohort solvers."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from turnout.core.records import Count, record, static
from turnout.core.tree import where
from turnout.solvers.line_search import LineSearch


class Inverse(NamedTuple):
    """The approximation H of the inverse Hessian, and whether it was updated."""

    matrix: Float[Array, "d d"]
    updated: Bool[Array, ""]


@record
class Bfgs(LineSearch):
    """BFGS with a line search (Nocedal and Wright, Algorithm 6.1).

    y <- y - H grad phi(y), H being the BFGS approximation of the inverse Hessian. H starts at 1 / (W L + 1 / gamma) and takes the
    scale of the first step and its change of gradient.

    Args:
        smoothness: L; None means max_i L_i of the problem.
        convexity: mu; None means min_i mu_i of the problem.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.Bfgs(), gamma=1.0, inner=4), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    def initial_memory(self, phi):
        d = phi.centre.size
        start = jnp.eye(d, dtype=phi.centre.dtype) / self.bounds(phi)[1]
        return Inverse(start, jnp.asarray(False))

    def direction(self, ask, phi, state, new, reply):
        learnt = updated_inverse(state.memory, state.step, new.gradient - state.gradient)
        memory = where(jnp.isfinite(state.value), learnt, state.memory)
        return memory, -memory.matrix @ new.gradient


def updated_inverse(inverse: Inverse, step: Float[Array, " d"], change: Float[Array, " d"]) -> Inverse:
    """Return H after the pair (step, change of gradient); a pair without curvature is skipped.

    Args:
        inverse: H before.
        step: Step [d].
        change: Change of the gradient over the step [d].
    """
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
    """L-BFGS with a line search (Nocedal and Wright, Algorithm 7.4; optax).

    y <- y - H grad phi(y), H being made of the last steps. For more parameters than the [d, d] matrix of `Bfgs` allows.

    Args:
        smoothness: L; None means max_i L_i of the problem.
        convexity: mu; None means min_i mu_i of the problem.
        pairs: Number of steps that H is made of.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.Lbfgs(), gamma=1.0, inner=4), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    pairs: Count = static(default=10)

    def initial_memory(self, phi):
        return self._lbfgs().init(phi.centre)

    def direction(self, ask, phi, state, new, reply):
        # The library mixes integers of 32 and 64 bits.
        with jax.numpy_dtype_promotion("standard"):
            step, memory = self._lbfgs().update(new.gradient, state.memory, new.y)
        return memory, jnp.where(jnp.isfinite(state.value), -jnp.asarray(step), self.descent(phi, new.gradient))

    def _lbfgs(self):
        # Slow to import.
        import optax

        return optax.scale_by_lbfgs(memory_size=self.pairs)
