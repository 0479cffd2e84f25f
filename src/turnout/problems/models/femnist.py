"""The convolutional network of Cohort Squeeze for FEMNIST."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from turnout.problems.models.layers import Convolution, at_least, dense, flat, pool


class FemnistCnn(eqx.Module):
    """conv 5x5-32, ReLU, conv 5x5-64, ReLU, max-pool 2, dense 128, ReLU, dense `classes`; no padding.

    For 28 x 28 pixels and 62 classes it has 832 + 51,264 + 819,328 + 7,998 parameters, the counts of Cohort Squeeze, appendix E;
    the shapes printed there are of another network.

    Args:
        shape: (height, width, channels) of an image.
        classes: Number of classes.
        key: Key of the random weights.
    """

    conv1: Convolution
    conv2: Convolution
    dense1: eqx.nn.Linear
    dense2: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], classes: int, key: PRNGKeyArray):
        at_least("femnist-cnn", shape, 10)
        height, width, channels = shape
        keys = jax.random.split(key, 4)
        self.conv1 = Convolution(channels, 32, 5, keys[0])
        self.conv2 = Convolution(32, 64, 5, keys[1])
        self.dense1 = dense(64 * ((height - 8) // 2) * ((width - 8) // 2), 128, keys[2])
        self.dense2 = dense(128, classes, keys[3])

    def __call__(self, images: Float[Array, "b h w c"]) -> Float[Array, "b classes"]:
        h = jax.nn.relu(self.conv2(jax.nn.relu(self.conv1(images))))
        h = jax.nn.relu(jax.vmap(self.dense1)(flat(pool(h))))
        return jax.vmap(self.dense2)(h)
