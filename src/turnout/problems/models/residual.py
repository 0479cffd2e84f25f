"""Residual networks."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from turnout.core.errors import unknown
from turnout.problems.models.layers import BatchNorm, Convolution, GroupNorm, Moved, at_least, dense

NORMS = {"group": GroupNorm, "batch": BatchNorm}


class Block(eqx.Module):
    """ReLU(norm(conv 3x3(ReLU(norm(conv 3x3(a))))) + a), with norm(conv 1x1(a)) for the last a if the size changes.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the output.
        stride: Stride of the first convolution.
        norm: "group" or "batch".
        key: Random key.
    """

    conv1: Convolution
    norm1: GroupNorm | BatchNorm
    conv2: Convolution
    norm2: GroupNorm | BatchNorm
    shortcut: tuple[Convolution, GroupNorm | BatchNorm] | None

    def __init__(self, inputs: int, outputs: int, stride: int, norm: str, key: PRNGKeyArray):
        keys, same = jax.random.split(key, 3), stride == 1 and inputs == outputs
        self.conv1 = Convolution(inputs, outputs, 3, keys[0], padding=1, stride=stride, use_bias=False)
        self.norm1 = NORMS[norm](outputs)
        self.conv2 = Convolution(outputs, outputs, 3, keys[1], padding=1, use_bias=False)
        self.norm2 = NORMS[norm](outputs)
        short = Convolution(inputs, outputs, 1, keys[2], stride=stride, use_bias=False)
        self.shortcut = None if same else (short, NORMS[norm](outputs))

    def __call__(
        self, images: Float[Array, "b h w c"], counted: Bool[Array, " b"] | None, moved: Moved | None
    ) -> Float[Array, "b hh ww cc"]:
        h = jax.nn.relu(self.norm1(self.conv1(images), counted, moved))
        h = self.norm2(self.conv2(h), counted, moved)
        if self.shortcut is not None:
            conv, norm = self.shortcut
            images = norm(conv(images), counted, moved)
        return jax.nn.relu(h + images)


class Residual(eqx.Module):
    """conv 3x3, norm, ReLU, `blocks` blocks of each width, mean over all pixels, dense `classes` (He et al., 2016).

    From each width to the next the height and width of images are halved. With norm "batch" the output for one image depends, in
    training, on all `counted` images of the batch: a call that is given a dictionary `moved` is one in training, and puts the
    running statistics after it there.

    Args:
        shape: (height, width, channels) of an image.
        classes: Number of classes.
        key: Key of the random weights.
        widths: Channels of each group of blocks.
        blocks: Number of blocks of each width.
        norm: "group" or "batch".
    """

    conv: Convolution
    norm: GroupNorm | BatchNorm
    blocks: list[Block]
    dense: eqx.nn.Linear

    def __init__(
        self, shape: tuple[int, int, int], classes: int, key: PRNGKeyArray, widths: tuple[int, ...], blocks: int, norm: str
    ):
        if norm not in NORMS:
            raise unknown("norm", norm, NORMS)
        keys = iter(jax.random.split(key, 2 + blocks * len(widths)))
        self.conv = Convolution(shape[2], widths[0], 3, next(keys), padding=1, use_bias=False)
        self.norm = NORMS[norm](widths[0])
        strides = [1] * blocks + ([2] + [1] * (blocks - 1)) * (len(widths) - 1)
        sizes = [widths[0], *(width for width in widths for _ in range(blocks))]
        self.blocks = [Block(*size, norm, next(keys)) for size in zip(sizes, sizes[1:], strides, strict=False)]
        self.dense = dense(widths[-1], classes, next(keys))

    @property
    def mixes_rows(self) -> bool:
        """Whether in training the output for one image depends on the others of its batch."""
        return isinstance(self.norm, BatchNorm)

    def __call__(
        self, images: Float[Array, "b h w c"], counted: Bool[Array, " b"] | None = None, moved: Moved | None = None
    ) -> Float[Array, "b classes"]:
        h = jax.nn.relu(self.norm(self.conv(images), counted, moved))
        for block in self.blocks:
            h = block(h, counted, moved)
        return jax.vmap(self.dense)(jnp.mean(h, (1, 2)))


def residual_6(shape: tuple[int, int, int], classes: int, key: PRNGKeyArray, norm: str = "group") -> Residual:
    """Return the residual network with six layers: 3x3-32, a block of 32 channels, a block of 64, dense.

    Cost-aware client selection, appendix E.3, uses one of six layers; its widths are not given.

    Args:
        shape: (height, width, channels) of an image.
        classes: Number of classes.
        key: Key of the random weights.
        norm: "group" or "batch".

    Raises:
        UserError: Images are smaller than 4 x 4.
    """
    at_least("residual-6", shape, 4)
    return Residual(shape, classes, key, (32, 64), 1, norm)


def resnet_18(shape: tuple[int, int, int], classes: int, key: PRNGKeyArray, norm: str = "group") -> Residual:
    """Return ResNet-18 for small images: the first convolution is 3x3 with stride 1, without pooling after it.

    Args:
        shape: (height, width, channels) of an image.
        classes: Number of classes.
        key: Key of the random weights.
        norm: "group" or "batch".

    Raises:
        UserError: Images are smaller than 8 x 8.
    """
    at_least("resnet-18", shape, 8)
    return Residual(shape, classes, key, (64, 128, 256, 512), 2, norm)
