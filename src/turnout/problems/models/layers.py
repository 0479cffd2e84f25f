"""Layers that networks are made of; images are [b, h, w, channels], weights are laid out as PyTorch has them."""

from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from turnout.core.errors import UserError
from turnout.core.tree import positive

GROUP, EPSILON = 16, 1e-5


class Convolution(eqx.Module):
    """Cross-correlation with `weight` [outputs, inputs, size, size] plus `bias` [outputs].

    Weights and biases are drawn from U[-1/sqrt(d), 1/sqrt(d)], d = inputs size^2, as PyTorch does.
    """

    weight: Float[Array, "outputs inputs size size"]
    bias: Float[Array, " outputs"] | None
    padding: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, size: int, key: PRNGKeyArray, padding: int = 0, stride: int = 1, use_bias: bool = True
    ):
        bound, (first, second) = (inputs * size**2) ** -0.5, jax.random.split(key)
        dtype = jnp.result_type(float)
        self.weight = jax.random.uniform(first, (outputs, inputs, size, size), dtype, -bound, bound)
        self.bias = jax.random.uniform(second, (outputs,), dtype, -bound, bound) if use_bias else None
        self.padding, self.stride = padding, stride

    def __call__(self, images: Float[Array, "b h w inputs"]) -> Float[Array, "b hh ww outputs"]:
        # XLA convolves slowly within loops on the CPU, so that this is matrix products: of the patches of one row of pixels each.
        outputs, inputs, size, _ = self.weight.shape
        edge = (self.padding, self.padding)
        images = jnp.pad(images, ((0, 0), edge, edge, (0, 0)))
        height, width = images.shape[1] - size + 1, images.shape[2] - size + 1
        patches = jnp.concatenate([images[:, :, j : j + width : self.stride] for j in range(size)], axis=-1)
        kernel = self.weight.transpose(2, 3, 1, 0).reshape(size, size * inputs, outputs)
        found = reduce(jnp.add, [patches[:, i : i + height : self.stride] @ kernel[i] for i in range(size)])
        return found if self.bias is None else found + self.bias[None, None, None]


class GroupNorm(eqx.Module):
    """(a - mean) / sqrt(variance + 1e-5) times `weight` plus `bias`, both [c] (Wu and He, 2018).

    Statistics are of 16 channels at a time of each image by itself.
    """

    weight: Float[Array, " c"]
    bias: Float[Array, " c"]

    def __init__(self, channels: int):
        self.weight, self.bias = jnp.ones(channels), jnp.zeros(channels)

    def __call__(self, images: Float[Array, "b h w c"], counted=None) -> Float[Array, "b h w c"]:
        b, h, w, c = images.shape
        groups = images.reshape(b, h, w, max(1, c // GROUP), -1)
        centred = groups - jnp.mean(groups, (1, 2, 4), keepdims=True)
        variance = jnp.mean(centred**2, (1, 2, 4), keepdims=True)
        return _affine(self, (centred * lax.rsqrt(variance + EPSILON)).reshape(images.shape))


class BatchNorm(eqx.Module):
    """(a - mean) / sqrt(variance + 1e-5) times `weight` plus `bias`, both [c] (Ioffe and Szegedy, 2015).

    Statistics are of each channel over those of the b images at hand that are `counted`, to train and to evaluate: none are kept.
    """

    weight: Float[Array, " c"]
    bias: Float[Array, " c"]

    def __init__(self, channels: int):
        self.weight, self.bias = jnp.ones(channels), jnp.zeros(channels)

    def __call__(self, images: Float[Array, "b h w c"], counted: Bool[Array, " b"]) -> Float[Array, "b h w c"]:
        weights = counted.astype(images.dtype)[:, None, None, None]
        many = positive(jnp.sum(weights)) * images.shape[1] * images.shape[2]
        centred = images - jnp.sum(weights * images, (0, 1, 2), keepdims=True) / many
        variance = jnp.sum(weights * centred**2, (0, 1, 2), keepdims=True) / many
        return _affine(self, centred * lax.rsqrt(variance + EPSILON))


def _affine(norm: GroupNorm | BatchNorm, images: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    return images * norm.weight[None, None, None] + norm.bias[None, None, None]


def dense(inputs: int, outputs: int, key: PRNGKeyArray) -> eqx.nn.Linear:
    """Return the layer W a + c of one row, with W [outputs, inputs] and c drawn from U[-1/sqrt(inputs), 1/sqrt(inputs)]."""
    return eqx.nn.Linear(inputs, outputs, dtype=jnp.result_type(float), key=key)


def pool(images: Float[Array, "b h w c"]) -> Float[Array, "b hh ww c"]:
    """The largest of each square of 2 x 2 pixels; a last odd row or column is left out."""
    b, h, w, c = images.shape
    squares = images[:, : h // 2 * 2, : w // 2 * 2].reshape(b, h // 2, 2, w // 2, 2, c)
    return jnp.max(squares, axis=(2, 4))


def flat(images: Float[Array, "b h w c"]) -> Float[Array, "b d"]:
    """All pixels of each image, channel by channel, as PyTorch has them."""
    return images.transpose(0, 3, 1, 2).reshape(images.shape[0], -1)


def at_least(name: str, shape: tuple[int, int, int], side: int) -> None:
    """Raise `UserError` where images of `shape` are smaller than `side` x `side`."""
    if min(shape[:2]) < side:
        given = " x ".join(map(str, shape[:2]))
        raise UserError(f"model {name!r} takes images of at least {side} x {side} pixels, but these have {given}: take another")
