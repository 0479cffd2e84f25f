"""Optimisers that find their step size on the way, from optax: Prodigy and D-Adaptation."""

from turnout.core.records import NonNegative, Positive, Proper, record
from turnout.optimisers.base import OptaxOptimiser


@record
class Prodigy(OptaxOptimiser):
    """Prodigy with Adam: the step size d grows with an estimate of how far x* is from x_0 (Mishchenko and Defazio, 2024).

    In step t = 1, 2, ..., with c = lr sqrt(1 - beta2^t) / (1 - beta1^t) and b = sqrt(beta2),

        r <- b r + c (d^2 / d_0) <g, x_0 - x>,   s <- b s + c (d^2 / d_0) g,
        m <- beta1 m + (1 - beta1) d g,   v <- beta2 v + (1 - beta2) d^2 g^2,
        x <- x - c d (m / (sqrt(v) + d' epsilon) + weight_decay x),   d <- d' = max(d, r / |s|_1).

    d_0 = `initial`; r, s, m and v are 0 at first, and the state also holds x_0. It needs some tens of steps until d has grown,
    fewer from a larger d_0, and an optimiser that begins anew in each round, as at the clients of `FedOpt`, has none: take it
    at the server.

    Args:
        lr: Factor of d, > 0; a schedule changes it.
        beta1: Weight of the past in m, in [0, 1).
        beta2: Weight of the past in v, in [0, 1).
        epsilon: Added to the root, > 0.
        initial: First d, > 0, far below |x_0 - x*|.
        weight_decay: Share of x, times c d, that a step takes away, >= 0.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.Prodigy(), jnp.array([1.0, -2.0])
        >>> state = optimiser.start(x)
        >>> for _ in range(50):
        ...     x, state = optimiser.step(x, 2 * x, state)
        >>> bool(jnp.linalg.norm(x) < 0.5)
        True
    """

    lr: Positive = 1.0
    beta1: Proper = 0.9
    beta2: Proper = 0.999
    epsilon: Positive = 1e-8
    initial: Positive = 1e-6
    weight_decay: NonNegative = 0.0

    def transformation(self, optax):
        return self._made_by(optax.contrib.prodigy)

    def _made_by(self, make):
        return make(self.lr, (self.beta1, self.beta2), eps=self.epsilon, estim_lr0=self.initial, weight_decay=self.weight_decay)


@record
class DAdaptAdamW(Prodigy):
    """D-Adaptation with AdamW: as `Prodigy`, by another estimate of how far x* is (Defazio and Mishchenko, 2023).

    In step t = 1, 2, ..., with c = d lr sqrt(1 - beta2^t) / (1 - beta1^t) and b = sqrt(beta2), where r and s are 0 at first,

        r <- b r + (1 - b) c <g, s / (sqrt(v) + epsilon)>,   s <- b s + (1 - b) c g,
        m <- beta1 m + (1 - beta1) c g,   v <- beta2 v + (1 - beta2) g^2,
        x <- x - m / (sqrt(v) + epsilon) - c weight_decay x,   d <- max(d, r / ((1 - b) |s|_1)).

    The state is one vector less than that of `Prodigy`.

    Args:
        lr: Factor of d, > 0; a schedule changes it.
        beta1: Weight of the past in m, in [0, 1).
        beta2: Weight of the past in v, in [0, 1).
        epsilon: Added to the root, > 0.
        initial: First d, > 0, far below |x_0 - x*|.
        weight_decay: Share of x, times c, that a step takes away, >= 0.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.DAdaptAdamW(initial=1e-3), jnp.array([1.0, -2.0])
        >>> state = optimiser.start(x)
        >>> for _ in range(50):
        ...     x, state = optimiser.step(x, 2 * x, state)
        >>> bool(jnp.linalg.norm(x) < 2)
        True
    """

    def transformation(self, optax):
        return self._made_by(optax.contrib.dadapt_adamw)
