"""What the problems that classify share: cross-entropy of their logits, weight decay, and who is classified rightly."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from turnout.core.errors import UserError
from turnout.core.records import Count, NonNegative, record, static
from turnout.problems.base import Problem
from turnout.problems.linear import federate


@record
class Classifier(Problem):
    """f_i(x) = (1/n_i) sum_r -log softmax(logits(x, a_r))[b_r] + (mu/2) |x|^2, with labels b_r of 0, ..., classes - 1.

    A subclass writes `logits` and `start`.
    """

    mu: NonNegative
    classes: Count = static()

    classifies: ClassVar[bool] = True

    def logits(self, x: PyTree, features) -> Float[Array, "b classes"]:
        """Return the logits of b feature rows."""
        raise UserError(f"{type(self).__name__} has no logits(self, x, features): write them")

    def losses(self, x, rows, **counted):
        # Slow to import.
        import optax

        features, labels = rows
        return optax.softmax_cross_entropy_with_integer_labels(self.logits(x, features, **counted), labels)

    def regulariser(self, x):
        return self.mu / 2 * sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(x))

    def correct(self, x, rows, **counted):
        features, labels = rows
        return (jnp.argmax(self.logits(x, features, **counted), axis=-1).astype(labels.dtype) == labels).astype(
            jnp.result_type(float)
        )


def federate_classes(dataset, split, weights: np.ndarray | None, classes: int | None = None) -> dict:
    """Return what `federate` does and the number of `classes`; labels are whole numbers.

    Where it is given, labels are 0, ..., `classes` - 1 already; else those that there are are numbered in increasing order.
    """
    labels = dataset.labels
    whole = labels == np.rint(labels) if labels.dtype.kind in "biuf" else np.zeros(dataset.rows, bool)
    if not whole.all():
        bad = labels[np.argmin(whole)].item()
        raise UserError(
            f"{dataset.name} has the label {bad!r}, but classes are whole numbers: number them, or take ridge regression"
        )
    if classes is None:
        found, labels = np.unique(labels, return_inverse=True)
        classes = found.size
    elif not np.isin(labels, np.arange(classes)).all():
        bad = labels[np.argmin(np.isin(labels, np.arange(classes)))].item()
        raise UserError(
            f"data set {dataset.name} has the label {bad!r}, which is none of the {classes} outputs 0, ..., {classes - 1}: give "
            "it more classes, or none, and labels are numbered as they come"
        )
    return {**federate(dataset, split, labels.astype(np.int32), weights), "classes": classes}


def affine(layer: dict, inputs) -> Float[Array, "b outputs"]:
    """W^T a + c for each of b rows a, where `layer` is {"weight": W, "bias": c}; W^T a where it has no bias."""
    outputs = inputs @ layer["weight"]
    return outputs + layer["bias"][None] if "bias" in layer else outputs
