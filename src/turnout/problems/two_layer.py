"""A small neural network, whose parameters are a nested dictionary."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.errors import unknown
from turnout.core.records import Count, record, static
from turnout.problems.classifier import Classifier, affine
from turnout.problems.federate import federate_classes

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}


@record
class Network(Classifier):
    """A `Classifier` of two layers: logits(a) = V^T activation(W^T a + u) + v.

    Parameters are {"hidden": {"weight": W [d, hidden], "bias": u [hidden]}, "output": {"weight": V [hidden, classes], ...}},
    without the biases where `intercept` is false.
    """

    hidden: Count = static()
    activation: str = static(default="tanh")
    intercept: bool = static(default=True)

    def __post_init__(self):
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", str(self.activation), ACTIVATIONS)

    @classmethod
    def of(cls, dataset, split, hidden: int = 32, mu: float = 0.0, weights=None, activation: str = "tanh", intercept=True):
        """Cut `dataset` into clients; its classes are numbered in increasing order of their labels."""
        parts = federate_classes(dataset.flat(), split, weights)
        return cls(**parts, mu=mu, hidden=hidden, activation=activation, intercept=intercept)

    def logits(self, x, features):
        return two_layers(x, features, ACTIVATIONS[self.activation])

    def start(self, key):
        """Draw weights from the Glorot-uniform law; biases are zero."""
        return draw_layers(key, self.rows[0].shape[-1], self.hidden, self.classes, self.intercept)


def two_layers(x: dict, features, activation: Callable) -> Float[Array, "b classes"]:
    """V^T activation(W^T a + u) + v for each of b rows a, where `x` is {"hidden": (W, u), "output": (V, v)} as in `Network`."""
    return affine(x["output"], activation(affine(x["hidden"], features)))


def draw_layers(key, inputs: int, hidden: int, classes: int, intercept: bool = True) -> dict:
    """Draw the weights of two layers from the Glorot-uniform law; biases, with an `intercept`, are zero."""
    glorot, dtype = jax.nn.initializers.glorot_uniform(), jnp.result_type(float)

    def layer(key, inputs, outputs):
        weight = {"weight": glorot(key, (inputs, outputs), dtype)}
        return {**weight, "bias": jnp.zeros(outputs, dtype)} if intercept else weight

    first, second = jax.random.split(key)
    return {"hidden": layer(first, inputs, hidden), "output": layer(second, hidden, classes)}
