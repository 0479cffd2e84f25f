"""The Gaussian mechanism on clients' replies (McMahan et al., Learning differentially private language models, 2018)."""

import secrets
from typing import Annotated, Any, Literal
from zlib import crc32

import annotated_types as at
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, UInt32

from turnout.core.client import Done
from turnout.core.local_methods import clipped, norm
from turnout.core.records import Index, Positive, record, static
from turnout.core.replies import Replies, SumsOnly

Model = Literal["central", "local"]


@record
class Privacy:
    """Differential privacy: each reply r is clipped to r min(1, S / |r|), S = `clip`, and Gaussian noise is added.

    The noise has the standard deviation z S w on every number, z = `noise_multiplier`. In the "central" model the server adds it
    to each weighted sum of replies, w being the largest weight; in the "local" model each client adds it to its reply, w = 1.

    Args:
        clip: S, the largest norm of a reply over all its arrays, > 0.
        noise_multiplier: z, the standard deviation of the noise over the sensitivity, > 0.
        delta: The delta for which epsilon is reported, 0 < delta < 1.
        model: Who adds the noise: "central" for the server, "local" for each client.
        seed: Seed of the noise; None takes the operating system's entropy, for cohorts in the central model too.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=6, dimension=3)
        >>> privacy = t.Privacy(clip=1.0, noise_multiplier=0.5, delta=1e-5, seed=0)
        >>> trace = t.run(t.FedAvg(t.Nice(2), lr=0.01, steps=1), problem, rounds=3, privacy=privacy)
        >>> trace.ledger.totals()["exchanges"]
        3
    """

    clip: Positive
    noise_multiplier: Positive
    delta: Annotated[float, at.Gt(0), at.Lt(1)]
    model: Model = static(default="central")
    seed: Index | None = None

    def protection(self) -> "Protection":
        """Return the mechanism for the engines, with the key of the noise."""
        return Protection(self.clip, self.noise_multiplier, _words(self.seed), self.model)

    def secret(self) -> UInt32[np.ndarray, "2"] | None:
        """Return a secret for the draws of cohorts, from the operating system's entropy as the noise.

        None with a seed of the noise, and in the local model, where sampling amplifies nothing.
        """
        return _words(None) if self.model == "central" and self.seed is None else None


def _words(seed: int | None) -> UInt32[np.ndarray, "2"]:
    """Return a seed as two 32-bit words; None stands for the operating system's entropy."""
    seed = secrets.randbits(64) if seed is None else seed
    return np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], "uint32")


@record
class Protection:
    """The mechanism of `Privacy` with the key of its noise.

    Args:
        clip: The largest norm of a reply.
        noise_multiplier: The standard deviation of the noise over the sensitivity.
        secret: The key of the noise, two 32-bit words [2].
        model: "central" or "local".
    """

    clip: float
    noise_multiplier: float
    secret: Any
    model: Model = static()

    def key(self, method: str, round, exchange, client):
        """Return the key of the noise on the reply of `client` to `method` in an exchange; the server is client n.

        Args:
            method: Address of the local method.
            round: Number of the round.
            exchange: Number of the exchange in the round.
            client: Id of the client, or n for the server.
        """
        key = jax.random.wrap_key_data(jnp.asarray(self.secret), impl="threefry2x32")
        for number in (crc32(method.encode()), exchange, round, client):
            key = jax.random.fold_in(key, number)
        return key

    def protect(self, done: Done, key) -> Done:
        """Return `done` with its reply clipped, and in the local model with noise added.

        In the local model a reply that holds NaN or infinity counts as zero, since no noise would hide these.

        Args:
            done: Result of a local method.
            key: Random key of the noise.
        """
        if not jax.tree.leaves(done.reply):
            return done
        size = norm(done.reply)
        reply = clipped(done.reply, size, self.clip)
        if self.model == "local":
            reply = jax.tree.map(lambda leaf: jnp.where(jnp.isfinite(size), leaf, jnp.zeros_like(leaf)), reply)
            reply = self.add_noise(reply, jnp.ones((), size.dtype), key)
        return done._replace(reply=reply)

    def add_noise(self, tree: PyTree, weight: Float[Array, ""], key) -> PyTree:
        """Return `tree` plus Gaussian noise of standard deviation z S `weight` on every number.

        Args:
            tree: A sum or a reply.
            weight: The largest weight of a client in it.
            key: Random key of the noise.
        """
        deviation = weight * jnp.asarray(self.noise_multiplier, weight.dtype) * jnp.asarray(self.clip, weight.dtype)
        leaves, structure = jax.tree.flatten(tree)
        keys = jax.random.split(key, len(leaves))
        noise = [jax.random.normal(key, leaf.shape, leaf.dtype) for key, leaf in zip(keys, leaves, strict=True)]
        noisy = [leaf + deviation.astype(leaf.dtype) * normal for leaf, normal in zip(leaves, noise, strict=True)]
        return jax.tree.unflatten(structure, noisy)


class NoisyReplies(SumsOnly):
    """Replies of which only sums with noise are available: `disturbed(sum, by)`.

    Args:
        held: The replies.
        disturbed: Returns `sum` with the noise for the weighting `by`.
    """

    held: Replies
    disturbed: Any
    why = "the server may know only sums of replies with noise: take [privacy] model = 'local'"

    def summed(self, by):
        return self.disturbed(self.held.summed(by), by)
