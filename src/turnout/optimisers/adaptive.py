"""Adaptive optimisers for servers: FedAdagrad, FedAdam and FedYogi."""

from abc import abstractmethod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.core.records import Positive, Proper, record
from turnout.core.tree import zeros
from turnout.optimisers.base import Optimiser


class Moments(NamedTuple):
    """Running means m of the gradients, and second moments v."""

    first: PyTree
    second: PyTree


@record
class Adaptive(Optimiser):
    """Base class: m <- beta1 m + (1 - beta1) g, v <- `second_moment`(v, g^2), x <- x - lr m / (sqrt(v) + tau).

    m = 0 and v = tau^2 at first; there is no bias correction. At a server g is minus the mean change of the clients (Reddi et
    al., 2021, Algorithm 2).

    Args:
        beta1: Weight of the running mean of gradients, in [0, 1).
        tau: Number added to sqrt(v), > 0.
    """

    beta1: Proper = 0.9
    tau: Positive = 1e-3

    @abstractmethod
    def second_moment(self, v, square):
        """Return the next v.

        Args:
            v: v before the step.
            square: g^2.
        """

    def start(self, x):
        return Moments(zeros(x), jax.tree.map(lambda x: jnp.full_like(x, self.tau**2), x))

    def update(self, x, gradient, state, curvature):
        m = jax.tree.map(lambda m, g: self.beta1 * m + (1 - self.beta1) * g, state.first, gradient)
        v = jax.tree.map(lambda v, g: self.second_moment(v, g * g), state.second, gradient)
        return jax.tree.map(lambda x, m, v: x - self.lr * m / (jnp.sqrt(v) + self.tau), x, m, v), Moments(m, v)


@record
class FedAdagrad(Adaptive):
    """FedAdagrad: v <- v + g^2, m <- beta1 m + (1 - beta1) g, x <- x - lr m / (sqrt(v) + tau) (Reddi et al., 2021, Algorithm 2).

    m = 0 and v = tau^2 at first.

    Args:
        lr: Step size, > 0.
        beta1: Weight of the past in m, in [0, 1).
        tau: Added to sqrt(v), > 0.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.FedAdagrad(1.0, tau=1.0), jnp.array([1.0, -2.0])
        >>> x, state = optimiser.step(x, 2 * x, optimiser.start(x))
        >>> x.round(2).tolist() == [0.38, -1.22]
        True
    """

    beta1: Proper = 0.0

    def second_moment(self, v, square):
        return v + square


@record
class FedAdam(Adaptive):
    """FedAdam: v <- beta2 v + (1 - beta2) g^2, m <- beta1 m + (1 - beta1) g, x <- x - lr m / (sqrt(v) + tau).

    m = 0 and v = tau^2 at first. Source: Reddi et al. (2021), Algorithm 2.

    Args:
        lr: Step size, > 0.
        beta1: Weight of the past in m, in [0, 1).
        tau: Added to sqrt(v), > 0.
        beta2: Weight of the past in v, in [0, 1).
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.FedAdam(1.0, tau=1.0), jnp.array([1.0, -2.0])
        >>> x, state = optimiser.step(x, 2 * x, optimiser.start(x))
        >>> x.round(2).tolist() == [0.9, -1.81]
        True
    """

    beta2: Proper = 0.99

    def second_moment(self, v, square):
        return self.beta2 * v + (1 - self.beta2) * square


@record
class FedYogi(Adaptive):
    """FedYogi: v <- v - (1 - beta2) g^2 sign(v - g^2), m <- beta1 m + (1 - beta1) g, x <- x - lr m / (sqrt(v) + tau).

    m = 0 and v = tau^2 at first. Source: Reddi et al. (2021), Algorithm 2.

    Args:
        lr: Step size, > 0.
        beta1: Weight of the past in m, in [0, 1).
        tau: Added to sqrt(v), > 0.
        beta2: Weight of the past in v, in [0, 1).
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.FedYogi(1.0, tau=1.0), jnp.array([1.0, -2.0])
        >>> x, state = optimiser.step(x, 2 * x, optimiser.start(x))
        >>> x.round(2).tolist() == [0.9, -1.81]
        True
    """

    beta2: Proper = 0.99

    def second_moment(self, v, square):
        return v - (1 - self.beta2) * square * jnp.sign(v - square)
