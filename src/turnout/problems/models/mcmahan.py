"""The networks of McMahan et al. (2017) for images."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from turnout.problems.models.layers import Convolution, at_least, dense, flat, pool


class McMahanCnn(eqx.Module):
    """conv 5x5-32, ReLU, max-pool 2, conv 5x5-64, ReLU, max-pool 2, dense 512, ReLU, dense `classes`; padded to the same size.

    For 28 x 28 pixels and 10 classes it has the 1,663,370 parameters of McMahan et al., 2017, section 3.

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
        at_least("mcmahan-cnn", shape, 4)
        height, width, channels = shape
        keys = jax.random.split(key, 4)
        self.conv1 = Convolution(channels, 32, 5, keys[0], padding=2)
        self.conv2 = Convolution(32, 64, 5, keys[1], padding=2)
        self.dense1 = dense(64 * (height // 4) * (width // 4), 512, keys[2])
        self.dense2 = dense(512, classes, keys[3])

    def __call__(self, images: Float[Array, "b h w c"]) -> Float[Array, "b classes"]:
        h = pool(jax.nn.relu(self.conv1(images)))
        h = pool(jax.nn.relu(self.conv2(h)))
        h = jax.nn.relu(jax.vmap(self.dense1)(flat(h)))
        return jax.vmap(self.dense2)(h)


class McMahan2nn(eqx.Module):
    """dense 200, ReLU, dense 200, ReLU, dense `classes`, on the pixels of an image.

    For 28 x 28 pixels and 10 classes it has the 199,210 parameters of the 2NN of McMahan et al., 2017, section 3.

    Args:
        shape: (height, width, channels) of an image.
        classes: Number of classes.
        key: Key of the random weights.
    """

    dense1: eqx.nn.Linear
    dense2: eqx.nn.Linear
    dense3: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], classes: int, key: PRNGKeyArray):
        height, width, channels = shape
        keys = jax.random.split(key, 3)
        self.dense1 = dense(height * width * channels, 200, keys[0])
        self.dense2 = dense(200, 200, keys[1])
        self.dense3 = dense(200, classes, keys[2])

    def __call__(self, images: Float[Array, "b h w c"]) -> Float[Array, "b classes"]:
        h = flat(images)
        for layer in (self.dense1, self.dense2):
            h = jax.nn.relu(jax.vmap(layer)(h))
        return jax.vmap(self.dense3)(h)
