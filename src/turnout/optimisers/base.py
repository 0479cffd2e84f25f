"""The optimiser protocol: how gradients become steps. Read this file to write an optimiser of your own.

An optimiser is a record with the fields `lr` and `clip` and its own hyper-parameters. It writes `update(x, gradient, state,
curvature)`, which returns the next parameters and state, and `start(x)`, the first state, a pytree of arrays. Parameters x are
any pytree. The same record serves at servers, at clients and in cohort solvers. Every field for an optimiser also accepts an
`optax.GradientTransformation`.

Examples:
    Heavy-ball momentum with steps along the sign:

    >>> import jax, jax.numpy as jnp, turnout as t
    >>> @t.record
    ... class SignMomentum(t.optimisers.Optimiser):
    ...     beta: float = 0.9
    ...
    ...     def start(self, x):
    ...         return jax.tree.map(jnp.zeros_like, x)
    ...
    ...     def update(self, x, gradient, state, curvature):
    ...         state = jax.tree.map(lambda m, g: self.beta * m + (1 - self.beta) * g, state, gradient)
    ...         return jax.tree.map(lambda x, m: x - self.lr * jnp.sign(m), x, state), state
    >>> problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
    >>> trace = t.run(t.FedOpt(t.Nice(3), SignMomentum(0.01), t.optimisers.Sgd(1.0), steps=2), problem, rounds=5)
    >>> trace.ledger.totals()["exchanges"]
    5

    Any transformation of optax is accepted in the same place, `t.FedOpt(t.Nice(3), optax.adam(0.01), ...)`; `lr` is then a factor
    of its steps, 1 at first.
"""

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from turnout.core.errors import UserError
from turnout.core.local_methods import norm
from turnout.core.records import Positive, record, static
from turnout.core.tree import add, positive

Curvature = Callable[[Int[Array, ""]], PyTree]
"""A function of the step number, from 0, to z * (H z) with the Hessian H at x and new random signs z in each step."""


@record
class Optimiser:
    """Base class: x <- x - lr d, the direction d being a function of the gradients g so far, clipped to min(1, clip / |g|) g.

    Args:
        lr: Step size, > 0.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import turnout as t
        >>> isinstance(t.optimisers.Adam(0.1), t.optimisers.Optimiser)
        True
    """

    example = "t.optimisers.Sgd(0.1)"

    lr: Positive
    clip: Positive | None = field(default=None, kw_only=True)

    needs_hessian: ClassVar[bool] = False
    """Whether `update` calls `curvature`, which costs one additional query per step."""

    @staticmethod
    def coerce(value: Any) -> Any:
        """Return an `optax.GradientTransformation` as an `Optimiser`, and any other `value` unchanged."""
        if isinstance(value, tuple) and hasattr(value, "init") and hasattr(value, "update"):
            return FromOptax(optimiser=value)
        return value

    @property
    def queries(self) -> int:
        """The number of oracle queries per step."""
        return 1 + self.needs_hessian

    def with_lr_factor(self, factor) -> "Optimiser":
        """Return this optimiser with lr multiplied by `factor`."""
        scaled = copy(self)
        # Without the checks, which a traced factor would not pass.
        object.__setattr__(scaled, "lr", factor * self.lr)
        return scaled

    def check(self, problem) -> None:
        """Raise `UserError` if this optimiser needs second derivatives and `problem` has none."""
        if self.needs_hessian and not problem.twice_differentiable:
            name, kind = type(self).__name__, type(problem).__name__
            raise UserError(f"optimiser {name} needs second derivatives: {kind} has none, take a first-order one")

    def check_at_server(self) -> None:
        """Raise `UserError` if this optimiser needs second derivatives, which a server has not."""
        if self.needs_hessian:
            name = type(self).__name__
            raise UserError(f"a server has no Hessian, so {name} cannot be its optimiser: take another server_optimiser")

    def start(self, x: PyTree) -> Any:
        """Return the first state for parameters `x`, a pytree of arrays."""
        return None

    def step(self, x: PyTree, gradient: PyTree, state: Any, curvature: Curvature | None = None) -> tuple[PyTree, Any]:
        """Clip the gradient, then `update`.

        Args:
            x: The parameters, any pytree.
            gradient: The gradient at x.
            state: The state before.
            curvature: The Hessian's diagonal estimates, if `needs_hessian`.

        Returns:
            The next parameters and the next state.
        """
        if self.clip is not None:
            share = jnp.minimum(1, self.clip / positive(norm(gradient)))
            gradient = jax.tree.map(lambda g: share.astype(g.dtype) * g, gradient)
        return self.update(x, gradient, state, curvature)

    def update(self, x: PyTree, gradient: PyTree, state: Any, curvature: Curvature | None) -> tuple[PyTree, Any]:
        """Return the next parameters and state, given the clipped gradient.

        Args:
            x: Parameters.
            gradient: The clipped gradient at x.
            state: The state before.
            curvature: Returns z * (H z) for the number of a step, if `needs_hessian`.
        """
        raise UserError(f"{type(self).__name__} has no update(self, x, gradient, state, curvature): write one")


@record
class OptaxOptimiser(Optimiser):
    """Base class of optimisers whose steps optax computes."""

    scale: ClassVar[Any] = 1.0
    """Factor of the steps of the transformation."""

    @abstractmethod
    def transformation(self, optax) -> Any:
        """Return the `GradientTransformation` made by the module `optax`."""

    def start(self, x):
        return self._build().init(x)

    def update(self, x, gradient, state, curvature):
        # Transformations of optax mix types.
        with jax.numpy_dtype_promotion("standard"):
            step, state = self._build().update(gradient, state, x)
        return add(x, step, self.scale), state

    def _build(self):
        # optax is slow to import.
        import optax.contrib

        return self.transformation(optax)


@record
class FromOptax(OptaxOptimiser):
    """Any optimiser of optax: x <- x + lr s, s being the step of the transformation, which has its own step size.

    Every field for an optimiser accepts the transformation itself, `optimiser=optax.adam(0.1)`, and stores it as this record.
    The transformation is part of the compiled program: a different one compiles again.

    Args:
        lr: Factor of the steps, > 0; a schedule changes it.
        optimiser: The transformation, an `optax.GradientTransformation`.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, optax, turnout as t
        >>> optimiser, x = t.optimisers.Optimiser.coerce(optax.sgd(0.25)), jnp.array([1.0, -2.0])
        >>> optimiser.step(x, 2 * x, optimiser.start(x))[0].tolist()
        [0.5, -1.0]
    """

    lr: Positive = 1.0
    optimiser: Any = static(kw_only=True)

    def transformation(self, optax):
        return self.optimiser

    @property
    def scale(self):
        return self.lr


def hessian_probe(hvp: Callable[[PyTree], PyTree], x: PyTree, key) -> Curvature:
    """Return z * (H z) as a function of the step number, with the random signs z of a client with this `key`.

    Args:
        hvp: Returns the product of the Hessian and a vector, with one query.
        x: Parameters.
        key: Random key of the client.
    """
    # Folded twice, since batches use the key folded with the step number.
    return lambda number: hessian_diagonal(hvp, x, jax.random.fold_in(jax.random.fold_in(key, number), 1))


def hessian_diagonal(hvp: Callable[[PyTree], PyTree], x: PyTree, key) -> PyTree:
    """Return Hutchinson's estimate z * (H z) of the diagonal of H, with random signs z; `hvp` returns H z, one query.

    Args:
        hvp: Returns the product of the Hessian and a vector, with one query.
        x: Parameters.
        key: Random key of the signs.
    """
    z = random_signs(x, key)
    return jax.tree.map(jnp.multiply, z, hvp(z))


def random_signs(x: PyTree, key) -> PyTree:
    """Return +1 or -1 with equal probability for every entry of the parameters x.

    Args:
        x: Parameters.
        key: Random key of the signs.
    """
    leaves, structure = jax.tree.flatten(x)
    keys = jax.random.split(key, len(leaves))
    signs = [jax.random.rademacher(key, jnp.shape(leaf), leaf.dtype) for key, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, signs)
