"""The base of classification problems: cross-entropy of logits, and weight decay."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.errors import UserError
from turnout.core.records import Count, NonNegative, record, static
from turnout.problems.base import Problem


@record
class Classifier(Problem):
    """f_i(x) = (1/n_i) sum_r -log softmax(logits(x, a_r))[b_r] + (mu/2) |x|^2, with labels b_r = 0, ..., classes - 1.

    A subclass defines `logits` and `start`.

    Args:
        rows: (features a, labels b [rows]).
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        mu: Weight of the regulariser, >= 0.
        classes: Number of classes.
    """

    mu: NonNegative
    classes: Count = static()

    classifies: ClassVar[bool] = True

    @property
    def codes(self) -> Int[np.ndarray, " classes"]:
        """0, ..., classes - 1."""
        return np.arange(self.classes, dtype=np.int32)

    def logits(self, x: PyTree, features) -> Float[Array, "b classes"]:
        """Return the logits of b feature rows.

        Args:
            x: Parameters.
            features: Feature rows [b, d].
        """
        raise UserError(f"{type(self).__name__} has no logits(self, x, features): write them")

    def losses(self, x, rows, **further):
        # Slow to import.
        import optax

        features, labels = rows
        return optax.softmax_cross_entropy_with_integer_labels(self.logits(x, features, **further), labels)

    def regulariser(self, x):
        return self.mu / 2 * sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(x))

    def correct(self, x, rows, **counted):
        _, labels = rows
        return (self.predicted(x, rows, **counted).astype(labels.dtype) == labels).astype(jnp.result_type(float))

    def predicted(self, x, rows, **counted):
        return jnp.argmax(self.logits(x, rows[0], **counted), axis=-1)


def affine(layer: dict, inputs) -> Float[Array, "b outputs"]:
    """Return W^T a + c for each of b rows a, with `layer` = {"weight": W, "bias": c}; W^T a without a bias.

    Args:
        layer: "weight" and, where there is one, "bias".
        inputs: Rows a [b, d].
    """
    outputs = inputs @ layer["weight"]
    return outputs + layer["bias"][None] if "bias" in layer else outputs
