"""The perceptron with one hidden layer, for images."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from turnout.problems.models.layers import flat
from turnout.problems.two_layer import draw_layers, two_layers


class Perceptron(eqx.Module):
    """The network of `problems.Network` with ReLU, on the pixels of an image.

    Args:
        shape: (height, width, channels) of an image.
        classes: Number of classes.
        key: Key of the random weights.
        hidden: Number of hidden units.
    """

    layers: dict

    def __init__(self, shape: tuple[int, int, int], classes: int, key: PRNGKeyArray, hidden: int = 200):
        height, width, channels = shape
        self.layers = draw_layers(key, height * width * channels, hidden, classes)

    def __call__(self, images: Float[Array, "b h w c"]) -> Float[Array, "b classes"]:
        return two_layers(self.layers, flat(images), jax.nn.relu)
