"""Differential privacy of replies: clipping and Gaussian noise."""

import secrets
from typing import Annotated, Any, Literal
from zlib import crc32

import annotated_types as at
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from turnout.core.client import Done
from turnout.core.local_methods import norm
from turnout.core.records import Index, Positive, record, static
from turnout.core.replies import Replies, SumsOnly
from turnout.core.tree import positive

Model = Literal["central", "local"]


@record
class Privacy:
    """Each reply is clipped to the norm `clip`, and Gaussian noise of `noise_multiplier` times the sensitivity is added.

    In the "central" model the server adds it to the weighted sum of replies, in the "local" one each client to its own reply.
    Epsilon is told for `delta`. The noise comes from the operating system's entropy, unless a `seed` is given.
    """

    clip: Positive
    noise_multiplier: Positive
    delta: Annotated[float, at.Gt(0), at.Lt(1)]
    model: Model = static(default="central")
    seed: Index | None = None

    def protection(self) -> "Protection":
        """Return what engines need of it, with the key of the noise."""
        seed = secrets.randbits(64) if self.seed is None else self.seed
        key = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], "uint32")
        return Protection(self.clip, self.noise_multiplier, key, self.model)


@record
class Protection:
    """Clips replies to the norm `clip` and draws noise from `secret` [2]; see `Privacy`."""

    clip: float
    noise_multiplier: float
    secret: Any
    model: Model = static()

    def key(self, method: str, round, exchange, client):
        """The key of the noise on what `client` replies to `method` in an exchange; the server has the number n."""
        key = jax.random.wrap_key_data(jnp.asarray(self.secret), impl="threefry2x32")
        for number in (crc32(method.encode()), exchange, round, client):
            key = jax.random.fold_in(key, number)
        return key

    def of_reply(self, done: Done, key) -> Done:
        """Return `done` with its reply clipped, and in the local model with noise of deviation z clip on each number."""
        if not jax.tree.leaves(done.reply):
            return done
        size = norm(done.reply)
        factor = jnp.minimum(1, jnp.asarray(self.clip, size.dtype) / positive(size))
        reply = jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), done.reply)
        if self.model == "local":
            reply = self.noisy(reply, jnp.ones((), size.dtype), key)
        return done._replace(reply=reply)

    def noisy(self, tree: PyTree, weight: Float[Array, ""], key) -> PyTree:
        """Return `tree` with noise of deviation z clip `weight` on each number."""
        deviation = weight * jnp.asarray(self.noise_multiplier, weight.dtype) * jnp.asarray(self.clip, weight.dtype)
        leaves, structure = jax.tree.flatten(tree)
        keys = jax.random.split(key, len(leaves))
        noise = [jax.random.normal(key, leaf.shape, leaf.dtype) for key, leaf in zip(keys, leaves, strict=True)]
        drawn = [leaf + deviation.astype(leaf.dtype) * normal for leaf, normal in zip(leaves, noise, strict=True)]
        return jax.tree.unflatten(structure, drawn)


class Noisy(SumsOnly):
    """Replies whose sums alone are given out, by `disturbed(sum, by)`."""

    held: Replies
    disturbed: Any
    why = "the server may know only sums of replies with noise: take [privacy] model = 'local'"

    def __init__(self, held: Replies, disturbed):
        for name, value in {"held": held, "disturbed": disturbed, "cohort": held.cohort, "answered": held.answered}.items():
            object.__setattr__(self, name, value)

    def summed(self, by):
        return self.disturbed(self.held.summed(by), by)
