"""Base class of the samplers that ask all clients for their gradients before some rounds."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.samplers.base import Sampler


class ByGradients(Sampler):
    """Base class: before round 1, and then every `every` rounds, clients are asked for their gradients, charged as a full pass.

    A subclass declares the fields `every` (None asks once) and `everyone`, a bound `Full`, and writes `learned`.
    """

    every: ClassVar[Any]
    everyone: ClassVar[Any]

    def refresh(self, state, ask, x):
        due = ask.round == 1 if self.every is None else (ask.round - 1) % self.every == 0
        return ask.cond(due, lambda state: self._asked(state, ask, x), lambda state: state, state)

    def _asked(self, state, ask, x):
        cohort = ask.draw(self.everyone)
        replies = ask(cohort, self.gradient, x)
        vectors = jax.vmap(lambda gradient: ravel_pytree(gradient)[0])(replies.values)
        return self.learned(state, vectors, replies.answered, cohort.share)

    def learned(self, state: Any, vectors: Float[Array, "n d"], answered: Bool[Array, " n"], shares: Float[Array, " n"]) -> Any:
        """Return the state after the clients' gradients.

        Args:
            state: The state before.
            vectors: grad f_i(x) [n, d].
            answered: Which clients answered [n].
            shares: lambda_i [n].
        """
        return state

    @on_client
    def gradient(self, client, x):
        return Done(client.grad(x))


def with_lost_ones(vectors: Float[Array, "n d"], answered: Bool[Array, " n"]) -> Float[Array, "n d"]:
    """Return `vectors` with those lost or infinite replaced by the mean of the others, which favours no part.

    Args:
        vectors: One vector for each client [n, d].
        answered: Which clients answered [n].
    """
    usable = (answered & jnp.all(jnp.isfinite(vectors), axis=1))[:, None]
    known = jnp.where(usable, vectors, 0)
    return jnp.where(usable, known, jnp.sum(known, axis=0, keepdims=True) / jnp.maximum(1, jnp.sum(usable, dtype=known.dtype)))


def on_host(function: Callable[..., Any], old: Any, *arrays: Any) -> Any:
    """Return `function(*arrays)`, a NumPy program whose results have the shapes and types of `old`.

    Args:
        function: The program.
        old: A pytree of arrays.
        arrays: What the program is given.
    """
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), old)

    def called(*given):
        return jax.tree.map(lambda new, shape: np.asarray(new, shape.dtype), function(*map(np.asarray, given)), shapes)

    return jax.pure_callback(called, shapes, *arrays, vmap_method="sequential")
