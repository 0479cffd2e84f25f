"""What every optimiser is: a record of hyper-parameters that turns gradients into steps."""

from collections.abc import Callable
from copy import copy
from dataclasses import field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from turnout.core.errors import UserError
from turnout.core.local_methods import norm
from turnout.core.records import Positive, record
from turnout.core.tree import positive

Curvature = Callable[[Int[Array, ""]], PyTree]
"""Of the number of a step, 0 for the first: z * (H z) for the Hessian H at x and signs z that are random in each step."""


@record
class Optimiser:
    """x <- x - lr d, the direction d being made of the gradients g so far, with `clip` = c each times min(1, c / |g|).

    |g| is over all leaves of the parameters.
    """

    example = "t.optimisers.Sgd(0.1)"

    lr: Positive
    clip: Positive | None = field(default=None, kw_only=True)

    needs_hessian: ClassVar[bool] = False
    """Whether steps need a `Curvature`, for one more query each."""

    @staticmethod
    def coerce(value: Any) -> Any:
        """Return an optimiser of optax as an `Optimiser`, and any other `value` as it is."""
        if isinstance(value, tuple) and hasattr(value, "init") and hasattr(value, "update"):
            from turnout.optimisers.standard import FromOptax

            return FromOptax(optimiser=value)
        return value

    @property
    def queries(self) -> int:
        """The oracle queries that a step needs."""
        return 1 + self.needs_hessian

    def with_lr_factor(self, factor) -> "Optimiser":
        """Return this optimiser with `factor` times its lr."""
        paced = copy(self)
        # Past the checks, which a factor that is being traced would not pass.
        object.__setattr__(paced, "lr", factor * self.lr)
        return paced

    def check(self, problem) -> None:
        """Raise `UserError` if this optimiser takes second derivatives and `problem` has none."""
        if self.needs_hessian and not problem.twice_differentiable:
            name, kind = type(self).__name__, type(problem).__name__
            raise UserError(f"optimiser {name} needs second derivatives: {kind} has none, take a first-order one")

    def start(self, x: PyTree) -> Any:
        """Return what is kept before the first step, a pytree of arrays."""
        return None

    def step(self, x: PyTree, gradient: PyTree, state: Any, curvature: Curvature | None = None) -> tuple[PyTree, Any]:
        """Return x after a step with the `gradient` at x, and what is kept."""
        if self.clip is not None:
            share = jnp.minimum(1, self.clip / positive(norm(gradient)))
            gradient = jax.tree.map(lambda g: share.astype(g.dtype) * g, gradient)
        return self.update(x, gradient, state, curvature)

    def update(self, x: PyTree, gradient: PyTree, state: Any, curvature: Curvature | None) -> tuple[PyTree, Any]:
        """Return what `step` does, for a gradient that is clipped already."""
        raise UserError(f"{type(self).__name__} has no update(self, x, gradient, state, curvature): write one")


def hessian_probe(hvp: Callable[[PyTree], PyTree], x: PyTree, key) -> Curvature:
    """Return z * (H z) as a function of a step's number, for a client with this `key`."""
    # Folded twice, since batches are drawn by the number alone.
    return lambda number: hessian_diagonal(hvp, x, jax.random.fold_in(jax.random.fold_in(key, number), 1))


def hessian_diagonal(hvp: Callable[[PyTree], PyTree], x: PyTree, key) -> PyTree:
    """Return z * (H z), whose mean is H's diagonal (Hutchinson), with random signs z [d]; `hvp` gives H z: one query."""
    z = random_signs(x, key)
    return jax.tree.map(jnp.multiply, z, hvp(z))


def random_signs(x: PyTree, key) -> PyTree:
    """Return +1 or -1 with equal chance in each place of the parameters x."""
    leaves, structure = jax.tree.flatten(x)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.rademacher(key, jnp.shape(leaf), leaf.dtype) for key, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)
