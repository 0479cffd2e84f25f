"""The standard optimisers, from optax."""

from turnout.core.records import NonNegative, Positive, Proper, record, static
from turnout.optimisers.base import OptaxOptimiser


@record
class Sgd(OptaxOptimiser):
    """Gradient steps, x <- x - lr g; with momentum beta, m <- beta m + g and x <- x - lr m (Polyak, 1964).

    Nesterov's momentum is x <- x - lr (g + beta m), with the new m (Sutskever et al., 2013).

    Args:
        lr: Step size, > 0.
        momentum: beta in [0, 1); None for no momentum.
        nesterov: Whether the momentum is Nesterov's.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.Sgd(0.25), jnp.array([1.0, -2.0])
        >>> x, state = optimiser.step(x, 2 * x, optimiser.start(x))
        >>> x.round(2).tolist() == [0.5, -1.0]
        True
    """

    momentum: Proper | None = None
    nesterov: bool = static(default=False)

    def transformation(self, optax):
        return optax.sgd(self.lr, self.momentum, self.nesterov)


@record
class Adam(OptaxOptimiser):
    """Adam: m and v are running means of g and g^2, corrected for their start (Kingma and Ba, 2015, Algorithm 1).

    m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2 and, in step t = 1, 2, ...,
    x <- x - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).

    Args:
        lr: Step size, > 0.
        beta1: Weight of the past in m, in [0, 1).
        beta2: Weight of the past in v, in [0, 1).
        epsilon: Added to the root, >= 0.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.Adam(0.5), jnp.array([1.0, -2.0])
        >>> x, state = optimiser.step(x, 2 * x, optimiser.start(x))
        >>> x.round(2).tolist() == [0.5, -1.5]
        True
    """

    beta1: Proper = 0.9
    beta2: Proper = 0.999
    epsilon: NonNegative = 1e-8

    def transformation(self, optax):
        return optax.adam(self.lr, self.beta1, self.beta2, self.epsilon)


@record
class AdamW(Adam):
    """AdamW: `Adam` with decoupled weight decay, x <- x - lr weight_decay x besides (Loshchilov and Hutter, 2019, Algorithm 2).

    Args:
        lr: Step size, > 0.
        beta1: Weight of the past in m, in [0, 1).
        beta2: Weight of the past in v, in [0, 1).
        epsilon: Added to the root, >= 0.
        weight_decay: Share of x, times lr, that a step takes away, >= 0.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.AdamW(0.5, weight_decay=0.5), jnp.array([1.0, -2.0])
        >>> x, state = optimiser.step(x, 2 * x, optimiser.start(x))
        >>> x.round(2).tolist() == [0.25, -1.0]
        True
    """

    weight_decay: NonNegative = 0.01

    def transformation(self, optax):
        return optax.adamw(self.lr, self.beta1, self.beta2, self.epsilon, weight_decay=self.weight_decay)


@record
class Muon(OptaxOptimiser):
    """Muon: steps along the orthogonalised momentum of every matrix, and AdamW for all other leaves (Jordan et al., 2024).

    m <- beta m + (1 - beta) g, X <- X - lr (sqrt(max(1, columns / rows)) O + weight_decay X), where five Newton-Schulz steps make
    O of M = U S V^T, the Nesterov momentum of the matrix, corrected for its start: O is about U V^T, with singular values between
    0.5 and 1.5 but for those of M that are tiny. Leaves with another number of axes than two take the steps of AdamW with
    Nesterov's momentum, of the same lr and weight decay.

    Args:
        lr: Step size, > 0.
        beta: Weight of the past in m, in [0, 1).
        weight_decay: Share of the parameters, times lr, that a step takes away, >= 0.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.Muon(0.5), jnp.diag(jnp.array([1.0, -2.0]))
        >>> step = optimiser.step(x, 2 * x, optimiser.start(x))[0] - x
        >>> jnp.sign(step).tolist() == [[-1.0, 0.0], [0.0, 1.0]]
        True
    """

    beta: Proper = 0.95
    weight_decay: NonNegative = 0.0

    def transformation(self, optax):
        decay = {"weight_decay": self.weight_decay, "adam_weight_decay": self.weight_decay}
        return optax.contrib.muon(self.lr, beta=self.beta, **decay)


@record
class Adagrad(OptaxOptimiser):
    """Adagrad: v <- v + g^2, x <- x - lr g / sqrt(v + epsilon) (Duchi et al., 2011, Figure 1, diagonal).

    Args:
        lr: Step size, > 0.
        initial: First v, >= 0.
        epsilon: Added to v, > 0.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.Adagrad(0.5, initial=0.0), jnp.array([1.0, -2.0])
        >>> x, state = optimiser.step(x, 2 * x, optimiser.start(x))
        >>> x.round(2).tolist() == [0.5, -1.5]
        True
    """

    initial: NonNegative = 0.1
    epsilon: Positive = 1e-7

    def transformation(self, optax):
        return optax.adagrad(self.lr, self.initial, self.epsilon)
