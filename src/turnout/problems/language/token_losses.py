"""Losses of the next token, without the logits of all tokens at once."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from turnout.core.backend import on_cpu

LOGITS, LOGITS_OF_ACCELERATORS = 2**25, 2**28
"""Bytes of the logits that are computed at once."""


def next_token_losses(
    states: Float[Array, "b t width"], weight: Float[Array, "vocabulary width"], targets: Int[Array, "b t"]
) -> Float[Array, " b"]:
    """Return for each text -(1/T) sum_t log p(target t), p = softmax(U h_t), over the T tokens that are not padding.

    The logits of V tokens are computed for some places at a time, and again for the gradient: those of 16 texts of 64 tokens with
    V = 50,304 would be 206 MB, and as much for their softmax and its gradient.

    Args:
        states: The states h.
        weight: U.
        targets: The tokens that follow; any number below 0 is padding.
    """
    counted = (targets >= 0).astype(states.dtype)
    losses = _losses(states.reshape(-1, states.shape[-1]), weight, jnp.maximum(targets, 0).ravel()).reshape(targets.shape)
    return jnp.sum(losses * counted, 1) / jnp.maximum(jnp.sum(counted, 1), 1)


def _losses(states: Float[Array, "n width"], weight: Float[Array, "v width"], targets: Int[Array, " n"]) -> Float[Array, " n"]:
    count, size = targets.size, block_size(weight)

    def some(block):
        h, tokens = block
        logits = h @ weight.T
        return jax.nn.logsumexp(logits, axis=1) - jnp.take_along_axis(logits, tokens[:, None], axis=1)[:, 0]

    if count <= size:
        return some((states, targets))
    steps = -(-count // size)
    size = -(-count // steps)
    padding = steps * size - count
    blocks = jnp.pad(states, ((0, padding), (0, 0))).reshape(steps, size, -1), jnp.pad(targets, (0, padding)).reshape(steps, size)
    return lax.map(jax.checkpoint(some), blocks).ravel()[:count]


def block_size(weight: Float[Array, "v width"]) -> int:
    """Return the number of tokens whose logits are computed at once.

    Args:
        weight: U.
    """
    return max(1, (LOGITS if on_cpu() else LOGITS_OF_ACCELERATORS) // (weight.shape[0] * weight.dtype.itemsize))
