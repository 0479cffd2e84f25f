"""Layers of language models. Their parameters have the names and the layout that PyTorch gives them in transformers."""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from turnout.core.errors import unknown

ACTIVATIONS: dict[str, Callable] = {
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_fast": partial(jax.nn.gelu, approximate=True),
    "gelu_new": partial(jax.nn.gelu, approximate=True),
    "relu": jax.nn.relu,
}
"""Activations by their names in a config.json."""


class Dense(eqx.Module):
    """W h + c of each token, W [outputs, inputs] and c [outputs]; W is drawn from N(0, deviation^2), and c = 0.

    Args:
        inputs: Numbers of a token before.
        outputs: Numbers of a token after.
        deviation: Standard deviation of the weights.
        key: Random key.
        use_bias: Whether there is c.
    """

    weight: Float[Array, "outputs inputs"]
    bias: Float[Array, " outputs"] | None

    def __init__(self, inputs: int, outputs: int, deviation: float, key: PRNGKeyArray, use_bias: bool = True):
        self.weight = normal((outputs, inputs), deviation, key)
        self.bias = jnp.zeros(outputs, self.weight.dtype) if use_bias else None

    def __call__(self, h: Float[Array, "*b inputs"]) -> Float[Array, "*b outputs"]:
        product = h @ self.weight.T
        return product if self.bias is None else product + jnp.expand_dims(self.bias, range(h.ndim - 1))


class LayerNorm(eqx.Module):
    """(h - mean) / sqrt(variance + epsilon) times `weight` plus `bias`, both [width], over the numbers of a token.

    Mean and variance have at least single precision (Ba et al., Layer normalization, 2016).

    Args:
        width: Numbers of a token.
        epsilon: What is added to the variance.
    """

    weight: Float[Array, " width"]
    bias: Float[Array, " width"]
    epsilon: float = eqx.field(static=True)

    def __init__(self, width: int, epsilon: float):
        self.weight, self.bias, self.epsilon = jnp.ones(width), jnp.zeros(width), epsilon

    def __call__(self, h: Float[Array, "b t width"]) -> Float[Array, "b t width"]:
        precise = h.astype(jnp.float32) if h.dtype.itemsize < 4 else h
        centred = precise - jnp.mean(precise, -1, keepdims=True)
        variance = jnp.mean(centred**2, -1, keepdims=True)
        scaled = (centred * lax.rsqrt(variance + self.epsilon)).astype(h.dtype)
        return scaled * self.weight[None, None] + self.bias[None, None]


class Embedding(eqx.Module):
    """The row of `weight` [count, width] of each token, drawn from N(0, deviation^2).

    Args:
        count: The number of rows.
        width: Numbers of a token.
        deviation: Standard deviation of the weights.
        key: Random key.
    """

    weight: Float[Array, "count width"]

    def __init__(self, count: int, width: int, deviation: float, key: PRNGKeyArray):
        self.weight = normal((count, width), deviation, key)

    def __call__(self, ids: Int[Array, "b t"]) -> Float[Array, "b t width"]:
        # Parameters of a file or a finished run are arrays of NumPy.
        return jnp.asarray(self.weight)[ids]


def normal(shape: tuple[int, ...], deviation: float, key: PRNGKeyArray) -> Float[Array, "..."]:
    """Return numbers drawn from N(0, deviation^2).

    Args:
        shape: The shape.
        deviation: Standard deviation.
        key: Random key.
    """
    return deviation * jax.random.normal(key, shape, jnp.result_type(float))


def attention(
    query: Float[Array, "b t heads k"],
    key: Float[Array, "b t heads k"],
    value: Float[Array, "b t heads k"],
    mask: Bool[Array, "b t"] | None = None,
) -> Float[Array, "b t width"]:
    """Return softmax(Q K^T / sqrt(k)) V of each head, the heads side by side (Vaswani et al., 2017, section 3.2).

    The softmax is in single precision, as in transformers.

    Args:
        query: Q.
        key: K.
        value: V.
        mask: Which tokens are attended to by all others; None: each attends to itself and to those before it.
    """
    seen = None if mask is None else mask[:, None, None]
    # Every token sees one at least: a row of a causal mask itself, one of another mask the first token of its text.
    # JAX finds the type of its softmax by promotion, which a program may have forbidden.
    with jax.numpy_dtype_promotion("standard"):
        heads = jax.nn.dot_product_attention(query, key, value, mask=seen, is_causal=mask is None)
    return heads.reshape(*heads.shape[:2], -1)


def activation(name: str) -> Callable:
    """Return an activation by its name in a config.json; `UserError` where it is not known."""
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


def applied(block: Callable, h: Float[Array, "b t width"], remat: bool) -> Float[Array, "b t width"]:
    """Return block(h).

    Args:
        block: A block of the network.
        h: Its inputs.
        remat: Whether its activations are computed again for the gradient, in the place of being kept.
    """
    return eqx.filter_checkpoint(block)(h) if remat else block(h)
