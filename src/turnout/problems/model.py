"""`Model`: a federated problem of a module that the user wrote."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.core.records import Count, NonNegative, record, static
from turnout.problems.activations import rows_within
from turnout.problems.base import ROWS_AT_ONCE, Precision, Problem
from turnout.problems.federate import check_data, federate, federate_classes, numbers_of
from turnout.problems.modules.base import OwnModule, stored
from turnout.problems.modules.frameworks import built, own_module
from turnout.problems.modules.losses import CROSS_ENTROPY, Loss, check_loss, check_outputs, losses_of
from turnout.problems.row_formats import NarrowRows, take
from turnout.problems.storage.client_rows import Column

PIXEL = 255
"""The byte value of a pixel 1.0."""


@record
class Model(Problem):
    """f_i(x) = (1/n_i) sum_r loss(module(x, a_r), b_r) + (mu/2) |x|^2 with a module of one's own; see `Model.of`.

    x is a nested dictionary of the module's floating-point arrays by their paths: as equinox names them; {"params": ...,
    "batch_stats": ...} for flax's linen; the paths of `Param` and `BatchStat` for nnx; the parameters of haiku, and with state
    {"params": ..., "state": ...}. Running statistics are leaves of x too, which only training moves, and |x|^2 is without them.
    Whole numbers among them, such as counts of batches, are kept as floating-point numbers, whose means are rounded.

    Args:
        rows: (features a, labels b [rows]); bytes of images are numbers k / 255.
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        mu: Weight of the regulariser, >= 0.
        module: The module as a function of its parameters.
        loss: "cross-entropy", "squared error", or a function of outputs and labels.
        classes: Number of classes; None where labels are numbers.
        initial: The initial parameters; None where `start` draws them.
        make: The function of a key that makes the module, if it draws parameters.

    Examples:
        >>> import equinox as eqx
        >>> import jax
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> module = lambda key: eqx.nn.MLP(64, 10, 16, 1, key=key)
        >>> problem = t.Model.of(module, "cross-entropy", data, IidSplit(clients=10).split(data))
        >>> trace = t.run(t.FedAvg(t.Nice(5), lr=0.05, steps=2), problem, rounds=2, metrics=("accuracy",))
        >>> trace.x["layers"]["0"]["weight"].shape
        (16, 64)
        >>> problem.whole(trace.x)(jax.numpy.zeros(64, "float32")).shape
        (10,)
    """

    mu: NonNegative
    module: OwnModule = static()
    loss: Loss = static()
    classes: Count | None = static(default=None)
    initial: PyTree = None
    make: Callable | None = static(default=None)

    precision: ClassVar[Precision] = "single"

    @property
    def classifies(self) -> bool:  # type: ignore
        return self.classes is not None

    @classmethod
    def of(cls, module: Any, loss: Loss, dataset, split, mu: float = 0.0, weights=None, classes: int | None = None) -> Problem:
        """Build the problem of a module and a data set; that of a module of PyTorch is a `Remote`, whose clients share it.

        Features go to the module as the data set has them, bytes of images as numbers from 0 to 1: modules of equinox take one
        row, under `jax.vmap` with the axis name "batch", others a batch. In training a module is in its library's mode of
        training and has a random key, else in that of evaluation. Libraries normalise by all rows of a batch, so that padding
        rows are replaced there by others of the batch, in turn.

        Args:
            module: A module of equinox, flax or PyTorch, whose parameters are the start where it has some; the pair of a module
                of equinox and its state; a pair of functions (init, apply) as those of haiku; or a function of a random key, or
                of nothing, that returns one, with which the start is drawn.
            loss: "cross-entropy" or "squared error" of a module's outputs, or a function (outputs [b, ...], labels [b]) that
                returns the losses [b].
            dataset: The data set.
            split: How its rows are split into clients.
            mu: Weight of the regulariser, >= 0.
            weights: Client weights lambda [n] up to their sum, uniform if None.
            classes: Number of classes, labels being 0, ..., classes - 1; None numbers the labels in increasing order, and with
                another loss than cross-entropy takes them as numbers.

        Raises:
            UserError: The module, its outputs, the loss, labels or weights do not fit.
        """
        check_loss(loss, classes)
        check_data(dataset, split)
        module, library, make = built(module)
        if loss == CROSS_ENTROPY or classes is not None:
            parts = federate_classes(dataset, split, weights, classes)
        else:
            parts = federate(dataset, split, dataset.recoded(numbers_of), weights)
        features, labels = parts.pop("rows")
        rows = _dense(dataset.name, features), labels
        if library == "torch":
            from turnout.problems.modules.torch_clients import torch_problem

            return torch_problem(module, loss, rows, parts, mu)
        own = own_module(module, library, rows[0].shape[1:])
        check_outputs(loss, own.outputs_of(2), 2, parts.get("classes"))
        drawn = make is not None or library in ("linen", "pair")
        initial = None if drawn else jax.tree.map(np.asarray, stored(own.x_of(module)))
        return cls(rows, **parts, mu=mu, module=own, loss=loss, initial=initial, make=make)

    def losses(self, x, rows):
        features, labels = rows
        return losses_of(self.loss, self.module.evaluated(x, _inputs(x, features)), labels)

    def training(self, x, rows, counted, key):
        features, labels = take(rows, without_padding(counted)) if self.statistics else rows
        outputs, moved = self.module.trained(x, _inputs(x, features), key)
        return losses_of(self.loss, outputs, labels), moved

    def start(self, key):
        """Return the parameters that the module was given with, or draws."""
        return self.module.start(key, self.make) if self.initial is None else jax.tree.map(jnp.asarray, self.initial)

    def regulariser(self, x):
        leaves = [leaf for name, leaf in leaves_by_name(x).items() if name not in self.statistics]
        return self.mu / 2 * sum(jnp.vdot(leaf, leaf) for leaf in leaves)

    def correct(self, x, rows):
        if self.classes is None:
            return super().correct(x, rows)
        _, labels = rows
        return (self.predicted(x, rows).astype(labels.dtype) == labels).astype(jnp.result_type(float))

    def predicted(self, x, rows):
        if self.classes is None:
            return super().predicted(x, rows)
        places = jnp.argmax(self.module.evaluated(x, _inputs(x, rows[0])), axis=-1)
        return jnp.where(places < self.classes, places, -1)

    def whole(self, x: PyTree) -> Any:
        """Return the module with the parameters x, as its library has it.

        It is a module of equinox, with state the pair of both; a module of nnx in evaluation mode; the variables of linen; the
        parameters of haiku, with state the pair of both.

        Args:
            x: Parameters, such as `trace.x`.
        """
        return self.module.whole(self.module.restored(x))

    @property
    def codes(self) -> Int[np.ndarray, " classes"]:
        """0, ..., classes - 1."""
        return np.arange(self.classes or 0, dtype=np.int32)

    @property
    def statistics(self):
        return self.module.statistics

    @property
    def trains_apart(self):
        return self.module.trains_apart

    @property
    def activation_bytes(self):
        return self.module.activation_bytes

    @property
    def rows_at_once(self):
        return rows_within(self.activation_bytes) if self.activation_bytes else ROWS_AT_ONCE


def without_padding(counted: Bool[Array, " b"]) -> Int[Array, " b"]:
    """Return the numbers of b rows with each one that is not counted replaced by one that is, in turn.

    Args:
        counted: Which rows are not padding.
    """
    count, padding = jnp.maximum(jnp.sum(counted, dtype="int32"), 1), jnp.cumsum(~counted, dtype="int32") - 1
    inside = jnp.argsort(~counted, stable=True).astype("int32")
    return jnp.where(counted, jnp.arange(counted.size, dtype="int32"), inside[padding % count])


def _inputs(x: PyTree, features) -> Float[Array, "b ..."]:
    """Return features in the type of the parameters x."""
    dtype = jax.tree.leaves(x)[0].dtype
    return features.astype(dtype) / jnp.asarray(PIXEL if features.dtype == jnp.uint8 else 1, dtype)


def _dense(name: str, features) -> np.ndarray | Column:
    """Return features as an array; `UserError` where they are sparse."""
    if isinstance(features, NarrowRows):
        return np.asarray(features.values)
    if not isinstance(features, np.ndarray | Column):
        raise UserError(f"data set {name} is sparse, but modules take arrays: give dense features")
    return features
