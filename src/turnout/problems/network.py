"""A small neural network, whose parameters are a nested dictionary."""

import jax
import jax.numpy as jnp

from turnout.errors import unknown
from turnout.problems.classifier import Classifier, affine, federate_classes
from turnout.records import Count, record, static

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
        return affine(x["output"], ACTIVATIONS[self.activation](affine(x["hidden"], features)))

    def start(self, key):
        """Draw weights from the Glorot-uniform law; biases are zero."""
        glorot, dtype = jax.nn.initializers.glorot_uniform(), jnp.result_type(float)

        def layer(key, inputs, outputs):
            weight = {"weight": glorot(key, (inputs, outputs), dtype)}
            return {**weight, "bias": jnp.zeros(outputs, dtype)} if self.intercept else weight

        first, second = jax.random.split(key)
        width = self.rows[0].shape[-1]
        return {"hidden": layer(first, width, self.hidden), "output": layer(second, self.hidden, self.classes)}
