"""A small convolutional network with or without normalisation."""

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from turnout.core.errors import unknown
from turnout.problems.models.layers import BatchNorm, Convolution, GroupNorm, Moved, at_least, dense, flat, pool

NORMS = {"none": None, "group": GroupNorm, "batch": BatchNorm}


class LeNet(eqx.Module):
    """conv 3x3-16, norm, ReLU, max-pool 2, conv 3x3-32, norm, ReLU, max-pool 2, dense 64, ReLU, dense `classes`.

    It is of the size of LeNet-5 (LeCun et al., 1998); Hsieh et al. (2020) compare its normalisations on clients that differ.

    Args:
        shape: (height, width, channels) of an image.
        classes: Number of classes.
        key: Key of the random weights.
        norm: "none", "group" or "batch".
    """

    conv1: Convolution
    norm1: GroupNorm | BatchNorm | None
    conv2: Convolution
    norm2: GroupNorm | BatchNorm | None
    dense1: eqx.nn.Linear
    dense2: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], classes: int, key: PRNGKeyArray, norm: str = "none"):
        at_least("lenet", shape, 4)
        if norm not in NORMS:
            raise unknown("norm", norm, NORMS)
        height, width, channels = shape
        keys, make = jax.random.split(key, 4), NORMS[norm]
        self.conv1 = Convolution(channels, 16, 3, keys[0], padding=1, use_bias=make is None)
        self.norm1 = None if make is None else make(16)
        self.conv2 = Convolution(16, 32, 3, keys[1], padding=1, use_bias=make is None)
        self.norm2 = None if make is None else make(32)
        self.dense1 = dense(32 * (height // 4) * (width // 4), 64, keys[2])
        self.dense2 = dense(64, classes, keys[3])

    @property
    def mixes_rows(self) -> bool:
        """Whether in training the output for one image depends on the others of its batch."""
        return isinstance(self.norm1, BatchNorm)

    def __call__(
        self, images: Float[Array, "b h w c"], counted: Bool[Array, " b"] | None = None, moved: Moved | None = None
    ) -> Float[Array, "b classes"]:
        h = images
        for conv, norm in ((self.conv1, self.norm1), (self.conv2, self.norm2)):
            h = conv(h)
            h = pool(jax.nn.relu(h if norm is None else norm(h, counted, moved)))
        return jax.vmap(self.dense2)(jax.nn.relu(jax.vmap(self.dense1)(flat(h))))
