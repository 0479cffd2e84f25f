"""A small neural network, whose parameters are a nested dictionary."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from turnout.problem import Problem
from turnout.problems.linear import federate
from turnout.records import Count, NonNegative, record, static


@record
class Network(Problem):
    """Cross-entropy of a two-layer network: logits(a) = V tanh(W a + u) + v, plus (mu/2) |parameters|^2.

    Parameters are {"hidden": {"weight": [d, hidden], "bias": [hidden]}, "output": {"weight": [hidden, classes], ...}}.
    """

    mu: NonNegative
    hidden: Count = static()
    classes: Count = static()

    classifies: ClassVar[bool] = True

    @classmethod
    def of(cls, dataset, split, hidden: int = 32, mu: float = 0.0, weights=None) -> "Network":
        """Cut `dataset` into clients; its classes are numbered in increasing order of their labels."""
        classes, labels = np.unique(dataset.labels, return_inverse=True)
        parts = federate(dataset, split, labels.astype(np.int32), weights)
        return cls(**parts, mu=mu, hidden=hidden, classes=classes.size)

    def logits(self, x, features):
        """Return the logits [b, classes] of b feature rows."""
        hidden = jnp.tanh(features @ x["hidden"]["weight"] + x["hidden"]["bias"][None])
        return hidden @ x["output"]["weight"] + x["output"]["bias"][None]

    def losses(self, x, rows):
        features, labels = rows
        return optax.softmax_cross_entropy_with_integer_labels(self.logits(x, features), labels)

    def regulariser(self, x):
        return self.mu / 2 * sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(x))

    def correct(self, x, rows):
        features, labels = rows
        return (jnp.argmax(self.logits(x, features), axis=-1).astype(labels.dtype) == labels).astype(jnp.result_type(float))

    def start(self, key):
        """Draw weights from the Glorot-uniform law; biases are zero."""
        glorot, dtype = jax.nn.initializers.glorot_uniform(), jnp.result_type(float)

        def layer(key, inputs, outputs):
            return {"weight": glorot(key, (inputs, outputs), dtype), "bias": jnp.zeros(outputs, dtype)}

        first, second = jax.random.split(key)
        width = self.rows[0].shape[-1]
        return {"hidden": layer(first, width, self.hidden), "output": layer(second, self.hidden, self.classes)}
