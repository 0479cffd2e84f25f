"""The standard optimisers, from optax."""

from abc import abstractmethod
from typing import Any, ClassVar

import jax

from turnout.core.records import NonNegative, Positive, Proper, record, static
from turnout.core.tree import add
from turnout.optimisers.base import Optimiser


@record
class Optax(Optimiser):
    """An optimiser that optax has."""

    scale: ClassVar[Any] = 1.0
    """Factor of the steps of the transformation."""

    @abstractmethod
    def transformation(self, optax) -> Any:
        """Return the transformation of gradients into steps that the module `optax` makes."""

    def start(self, x):
        return self._made().init(x)

    def update(self, x, gradient, state, curvature):
        # Its transformations mix types.
        with jax.numpy_dtype_promotion("standard"):
            step, state = self._made().update(gradient, state, x)
        return add(x, step, self.scale), state

    def _made(self):
        # Slow to import.
        import optax

        return self.transformation(optax)


@record
class FromOptax(Optax):
    """x <- x + lr s, s being the step of the optax transformation `optimiser`, whose own step size is part of s.

    Every field for an optimiser accepts the transformation itself, `optimiser=optax.adam(0.1)`, and holds it as this
    record. The transformation is part of the compiled program: another one compiles again.

    Args:
        optimiser: The transformation, an `optax.GradientTransformation`.
        lr: Factor of its steps, > 0; a schedule changes it.
        clip: Bound of the gradient's norm, > 0; None for no bound.
    """

    lr: Positive = 1.0
    optimiser: Any = static(kw_only=True)

    def transformation(self, optax):
        return self.optimiser

    @property
    def scale(self):
        return self.lr


@record
class Sgd(Optax):
    """x <- x - lr g, or with `momentum` = beta m <- beta m + g and x <- x - lr m."""

    momentum: Proper | None = None

    def transformation(self, optax):
        return optax.sgd(self.lr, self.momentum)


@record
class Adam(Optax):
    """m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2,

    x <- x - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) for t = 1, 2, ...: Kingma and Ba (2015, Algorithm 1).
    """

    beta1: Proper = 0.9
    beta2: Proper = 0.999
    epsilon: NonNegative = 1e-8

    def transformation(self, optax):
        return optax.adam(self.lr, self.beta1, self.beta2, self.epsilon)


@record
class Adagrad(Optax):
    """v <- v + g^2, x <- x - lr g / sqrt(v + epsilon), v = `initial` at first (Duchi et al., 2011, Figure 1, diagonal)."""

    initial: NonNegative = 0.1
    epsilon: Positive = 1e-7

    def transformation(self, optax):
        return optax.adagrad(self.lr, self.initial, self.epsilon)
