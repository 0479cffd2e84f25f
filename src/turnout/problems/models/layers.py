"""Layers of the networks. Images are [b, h, w, channels]; weights have the layout of PyTorch."""

from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from turnout.core.backend import on_cpu
from turnout.core.errors import UserError
from turnout.core.tree import positive

GROUP, EPSILON, MOMENTUM = 16, 1e-5, 0.1

Moved = dict[int, Array]
"""Statistics after a pass in training, by the identity of the array that holds them before it."""


class Convolution(eqx.Module):
    """Cross-correlation with `weight` [outputs, inputs, size, size] plus `bias` [outputs].

    Weights and biases are drawn from U[-1/sqrt(d), 1/sqrt(d)], d = inputs size^2, as in PyTorch.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the output.
        size: Height and width of the kernel.
        key: Key of the random weights.
        padding: Zero pixels added on each side.
        stride: Distance between output pixels.
        use_bias: Whether there is a bias.
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
        # XLA's convolutions are slow inside loops on a CPU, and with the kernels of many clients on a GPU. These are products
        # with patches of one pixel row: one for each row of the kernel, or on a GPU one for all, which reads the patches once.
        outputs, inputs, size, _ = self.weight.shape
        edge = (self.padding, self.padding)
        images = jnp.pad(images, ((0, 0), edge, edge, (0, 0)))
        height, width = images.shape[1] - size + 1, images.shape[2] - size + 1
        patches = jnp.concatenate([images[:, :, j : j + width : self.stride] for j in range(size)], axis=-1)
        if on_cpu():
            kernel = self.weight.transpose(2, 3, 1, 0).reshape(size, size * inputs, outputs)
            parts = [patches[:, i : i + height : self.stride] @ kernel[i] for i in range(size)]
        else:
            kernel = self.weight.transpose(3, 1, 2, 0).reshape(size * inputs, size * outputs)
            products = jnp.split(patches @ kernel, size, axis=-1)
            parts = [product[:, i : i + height : self.stride] for i, product in enumerate(products)]
        product = reduce(jnp.add, parts)
        return product if self.bias is None else product + self.bias[None, None, None]


class FewChannels(Convolution):
    """A convolution of few channels, without padding and with stride 1.

    On a CPU it is one product for each row of pixels, with a banded matrix: more operations than there have to be, in larger
    products. For 6 and 16 channels that halves the time of a gradient.
    """

    def __call__(self, images: Float[Array, "b h w inputs"]) -> Float[Array, "b hh ww outputs"]:
        if not on_cpu():
            return super().__call__(images)
        outputs, inputs, size, _ = self.weight.shape
        b, h, w, _ = images.shape
        height, width = h - size + 1, w - size + 1
        rows = jnp.concatenate([images[:, i : i + height].reshape(b, height, w * inputs) for i in range(size)], axis=-1)
        kernel = self.weight.transpose(2, 3, 1, 0)
        bands = [jnp.pad(kernel, ((0, 0), (j, width - 1 - j), (0, 0), (0, 0))) for j in range(width)]
        matrix = jnp.stack(bands, axis=3).reshape(size * w * inputs, width * outputs)
        return (rows @ matrix).reshape(b, height, width, outputs) + self.bias[None, None, None]


class GroupNorm(eqx.Module):
    """(a - mean) / sqrt(variance + 1e-5) times `weight` plus `bias`, both [c] (Wu and He, 2018).

    Mean and variance are over groups of 16 channels of each image.

    Args:
        channels: c, the number of channels.
    """

    weight: Float[Array, " c"]
    bias: Float[Array, " c"]

    def __init__(self, channels: int):
        self.weight, self.bias = jnp.ones(channels), jnp.zeros(channels)

    def __call__(self, images: Float[Array, "b h w c"], counted=None, moved=None) -> Float[Array, "b h w c"]:
        b, h, w, c = images.shape
        groups = images.reshape(b, h, w, max(1, c // GROUP), -1)
        centred = groups - jnp.mean(groups, (1, 2, 4), keepdims=True)
        variance = jnp.mean(centred**2, (1, 2, 4), keepdims=True)
        return _affine(self, (centred * lax.rsqrt(variance + EPSILON)).reshape(images.shape))


class BatchNorm(eqx.Module):
    """(a - mean) / sqrt(variance + 1e-5) times `weight` plus `bias`, both [c] (Ioffe and Szegedy, 2015).

    In evaluation mean and variance are the running ones. In training they are those of each channel over the `counted` images of
    the batch, and the running ones move: running <- 0.9 running + 0.1 (those of the batch), where the variance of the batch is
    the unbiased one, as in PyTorch.

    Args:
        channels: c, the number of channels.
    """

    weight: Float[Array, " c"]
    bias: Float[Array, " c"]
    running_mean: Float[Array, " c"]
    running_var: Float[Array, " c"]

    def __init__(self, channels: int):
        self.weight, self.bias = jnp.ones(channels), jnp.zeros(channels)
        self.running_mean, self.running_var = jnp.zeros(channels), jnp.ones(channels)

    def __call__(
        self, images: Float[Array, "b h w c"], counted: Bool[Array, " b"] | None = None, moved: Moved | None = None
    ) -> Float[Array, "b h w c"]:
        if moved is None:
            centred = images - self.running_mean[None, None, None]
            return _affine(self, centred * lax.rsqrt(self.running_var + EPSILON)[None, None, None])
        weights = counted.astype(images.dtype)[:, None, None, None]
        count = positive(jnp.sum(weights)) * images.shape[1] * images.shape[2]
        mean = jnp.sum(weights * images, (0, 1, 2), keepdims=True) / count
        centred = images - mean
        variance = jnp.sum(weights * centred**2, (0, 1, 2), keepdims=True) / count
        unbiased = variance * count / positive(count - 1)
        for running, batch in ((self.running_mean, mean), (self.running_var, unbiased)):
            moved[id(running)] = running + MOMENTUM * (lax.stop_gradient(batch).ravel() - running)
        return _affine(self, centred * lax.rsqrt(variance + EPSILON))


def _affine(norm: GroupNorm | BatchNorm, images: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    return images * norm.weight[None, None, None] + norm.bias[None, None, None]


def dense(inputs: int, outputs: int, key: PRNGKeyArray) -> eqx.nn.Linear:
    """Return the layer W a + c of one row, with W [outputs, inputs] and c drawn from U[-1/sqrt(inputs), 1/sqrt(inputs)].

    Args:
        inputs: Number of inputs.
        outputs: Number of outputs.
        key: Random key.
    """
    return eqx.nn.Linear(inputs, outputs, dtype=jnp.result_type(float), key=key)


def pool(images: Float[Array, "b h w c"]) -> Float[Array, "b hh ww c"]:
    """Return the maximum of each square of 2 x 2 pixels; an odd last row or column is dropped."""
    b, h, w, c = images.shape
    squares = images[:, : h // 2 * 2, : w // 2 * 2].reshape(b, h // 2, 2, w // 2, 2, c)
    # The derivative of one maximum over all four divides by how many are equal to it, which are none where XLA computes the
    # pixels twice and rounds them in two ways.
    rows = jnp.maximum(squares[:, :, 0], squares[:, :, 1])
    return jnp.maximum(rows[:, :, :, 0], rows[:, :, :, 1])


def flat(images: Float[Array, "b h w c"]) -> Float[Array, "b d"]:
    """Return all pixels of each image, channel by channel, in the order of PyTorch."""
    return images.transpose(0, 3, 1, 2).reshape(images.shape[0], -1)


def at_least(name: str, shape: tuple[int, int, int], side: int) -> None:
    """Raise `UserError` where images of `shape` are smaller than `side` x `side`.

    Args:
        name: Name of the model.
        shape: (h, w, channels) of the images.
        side: Smallest side.
    """
    if min(shape[:2]) < side:
        given = " x ".join(map(str, shape[:2]))
        raise UserError(f"model {name!r} takes images of at least {side} x {side} pixels, but these have {given}: take another")
