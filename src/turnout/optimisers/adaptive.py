"""The adaptive optimisers of servers in federated optimisation."""

from abc import abstractmethod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.core.records import Positive, Proper, record
from turnout.core.tree import zeros
from turnout.optimisers.base import Optimiser


class Moments(NamedTuple):
    """Running means of the gradients, and what stands for their squares."""

    first: PyTree
    second: PyTree


@record
class Adaptive(Optimiser):
    """m <- beta1 m + (1 - beta1) g, v <- `second`(v, g^2), x <- x - lr m / (sqrt(v) + tau); m = 0 and v = tau^2 at first.

    Adaptive federated optimization (Reddi et al., 2021, Algorithm 2), where g is minus the mean change of the clients; the
    first steps are not corrected, unlike those of `Adam`.
    """

    beta1: Proper = 0.9
    tau: Positive = 1e-3

    @abstractmethod
    def second(self, v, square):
        """Return the next v."""

    def start(self, x):
        return Moments(zeros(x), jax.tree.map(lambda x: jnp.full_like(x, self.tau**2), x))

    def update(self, x, gradient, state, curvature):
        m = jax.tree.map(lambda m, g: self.beta1 * m + (1 - self.beta1) * g, state.first, gradient)
        v = jax.tree.map(lambda v, g: self.second(v, g * g), state.second, gradient)
        return jax.tree.map(lambda x, m, v: x - self.lr * m / (jnp.sqrt(v) + self.tau), x, m, v), Moments(m, v)


@record
class FedAdagrad(Adaptive):
    """`Adaptive` with v <- v + g^2."""

    beta1: Proper = 0.0

    def second(self, v, square):
        return v + square


@record
class FedAdam(Adaptive):
    """`Adaptive` with v <- beta2 v + (1 - beta2) g^2."""

    beta2: Proper = 0.99

    def second(self, v, square):
        return self.beta2 * v + (1 - self.beta2) * square


@record
class FedYogi(Adaptive):
    """`Adaptive` with v <- v - (1 - beta2) g^2 sign(v - g^2)."""

    beta2: Proper = 0.99

    def second(self, v, square):
        return v - (1 - self.beta2) * square * jnp.sign(v - square)
