"""A small neural network, whose parameters are a nested dictionary."""

import jax
import jax.numpy as jnp

from turnout.problems.classifier import Classifier, federate_classes
from turnout.records import Count, record, static


@record
class Network(Classifier):
    """Cross-entropy of a two-layer network: logits(a) = V tanh(W a + u) + v, plus (mu/2) |parameters|^2.

    Parameters are {"hidden": {"weight": [d, hidden], "bias": [hidden]}, "output": {"weight": [hidden, classes], ...}}.
    """

    hidden: Count = static()

    @classmethod
    def of(cls, dataset, split, hidden: int = 32, mu: float = 0.0, weights=None) -> "Network":
        """Cut `dataset` into clients; its classes are numbered in increasing order of their labels."""
        return cls(**federate_classes(dataset, split, weights), mu=mu, hidden=hidden)

    def logits(self, x, features):
        """Return the logits [b, classes] of b feature rows."""
        hidden = jnp.tanh(features @ x["hidden"]["weight"] + x["hidden"]["bias"][None])
        return hidden @ x["output"]["weight"] + x["output"]["bias"][None]

    def start(self, key):
        """Draw weights from the Glorot-uniform law; biases are zero."""
        glorot, dtype = jax.nn.initializers.glorot_uniform(), jnp.result_type(float)

        def layer(key, inputs, outputs):
            return {"weight": glorot(key, (inputs, outputs), dtype), "bias": jnp.zeros(outputs, dtype)}

        first, second = jax.random.split(key)
        width = self.rows[0].shape[-1]
        return {"hidden": layer(first, width, self.hidden), "output": layer(second, self.hidden, self.classes)}
