"""LeNet-5 with ReLU and max-pooling."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from turnout.problems.models.layers import FewChannels, at_least, dense, flat, pool


class LeNet5(eqx.Module):
    """conv 5x5-6, ReLU, max-pool 2, conv 5x5-16, ReLU, max-pool 2, dense 120, ReLU, dense 84, ReLU, dense `classes`; no padding.

    The layers have the sizes of LeNet-5 (LeCun et al., 1998). For 28 x 28 pixels and 10 classes it has 44,426 parameters: the
    network of NIID-Bench for MNIST (Li et al., 2022, section V).

    Args:
        shape: (height, width, channels) of an image.
        classes: Number of classes.
        key: Key of the random weights.
    """

    conv1: FewChannels
    conv2: FewChannels
    dense1: eqx.nn.Linear
    dense2: eqx.nn.Linear
    dense3: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], classes: int, key: PRNGKeyArray):
        at_least("lenet-5", shape, 16)
        height, width, channels = shape
        keys = jax.random.split(key, 5)
        self.conv1 = FewChannels(channels, 6, 5, keys[0])
        self.conv2 = FewChannels(6, 16, 5, keys[1])
        sides = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        self.dense1 = dense(16 * sides[0] * sides[1], 120, keys[2])
        self.dense2 = dense(120, 84, keys[3])
        self.dense3 = dense(84, classes, keys[4])

    def __call__(self, images: Float[Array, "b h w c"]) -> Float[Array, "b classes"]:
        h = pool(jax.nn.relu(self.conv1(images)))
        h = flat(pool(jax.nn.relu(self.conv2(h))))
        for layer in (self.dense1, self.dense2):
            h = jax.nn.relu(jax.vmap(layer)(h))
        return jax.vmap(self.dense3)(h)
