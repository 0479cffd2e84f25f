"""Image classification with the networks of `turnout.problems.models`."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import signature
from math import isqrt, prod
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from turnout.core.compiling import program
from turnout.core.errors import UserError, unknown
from turnout.core.leaf_names import leaves_by_name
from turnout.core.records import record, static
from turnout.problems.activations import bytes_of_a_row, rows_within
from turnout.problems.base import Precision
from turnout.problems.classifier import Classifier
from turnout.problems.federate import check_data, federate_classes
from turnout.problems.storage.client_rows import Column

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr

PIXEL = 255
"""The byte value of a pixel 1.0."""

GROUP = 64
"""Consecutive rows that share batch statistics when all rows of a client are evaluated."""

ROWS = 4096
"""Images converted to bytes at once."""


@record
class Neural(Classifier):
    """Image classification: a `Classifier` with logits(a) = x(a), where the parameters x are a network itself.

    Args:
        rows: (images [rows, h w channels], labels [rows]); images are numbers, or bytes k for k / 255.
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        mu: Weight of the regulariser (mu/2) |x|^2, >= 0.
        classes: Number of classes.
        model: Name of the network, one of `turnout.problems.models.MODELS`.
        shape: (height, width, channels) of the images.
        options: Further options of the network as sorted pairs (name, value).

    Examples:
        >>> import jax
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=10).split(data), model="perceptron", hidden=16)
        >>> problem.shape, sum(leaf.size for leaf in jax.tree.leaves(problem.start(jax.random.key(0))))
        ((8, 8, 1), 1210)
    """

    model: str = static()
    shape: tuple[int, int, int] = static()
    options: tuple[tuple[str, Any], ...] = static(default=())

    precision: ClassVar[Precision] = "single"

    @classmethod
    def of(
        cls,
        dataset,
        split,
        model: str,
        mu: float = 0.0,
        weights=None,
        classes: int | None = None,
        shape: Sequence[int] | None = None,
        **options,
    ) -> "Neural":
        """Build the problem of a data set of images.

        Args:
            dataset: The data set; features are images [rows, h w channels], [rows, h, w] or [rows, h, w, channels].
            split: How its rows are split into clients.
            model: Name of the network.
            mu: Weight of the regulariser, >= 0.
            weights: Client weights lambda [n] up to their sum, uniform if None.
            classes: Number of classes, labels being 0, ..., classes - 1; None numbers the labels in increasing order.
            shape: (h, w) or (h, w, channels) of flat images; None means square images of one channel.
            **options: Options of the network.

        Raises:
            UserError: The images, labels, weights or options do not fit.
        """
        check_data(dataset, split)
        parts = federate_classes(dataset, split, weights, classes)
        images, labels = parts.pop("rows")
        images, size = flat_images(dataset.name, images, shape)
        make = maker(model, size, classes=parts["classes"], **options)
        # Checks images and options without drawing weights.
        jax.eval_shape(make, jax.random.key(0))
        return cls((images, labels), **parts, mu=mu, model=model, shape=size, options=tuple(sorted(options.items())))

    def logits(self, x, features, **training):
        dtype = jax.tree.leaves(x)[0].dtype
        images = features.astype(dtype) / jnp.asarray(PIXEL if features.dtype == jnp.uint8 else 1, dtype)
        return x(images.reshape(-1, *self.shape), **training)

    def training(self, x, rows, counted, key):
        moved = {}
        losses = self.losses(x, rows, counted=counted, moved=moved)
        return losses, {name: moved[id(leaf)] for name, leaf in leaves_by_name(x).items() if id(leaf) in moved}

    def regulariser(self, x):
        leaves = leaves_by_name(x)
        return self.mu / 2 * sum(jnp.vdot(leaf, leaf) for name, leaf in leaves.items() if name not in self.statistics)

    def start(self, key):
        """Return a network with random weights."""
        return _drawn(self._setting, key)

    @property
    def activation_bytes(self):
        return _activation_bytes(self._setting)

    @property
    def rows_at_once(self):
        return GROUP if self.mixes_rows else rows_within(self.activation_bytes)

    @property
    def mixes_rows(self):
        return getattr(jax.eval_shape(partial(_drawn, self._setting), jax.random.key(0)), "mixes_rows", False)

    @property
    def statistics(self):
        return _statistics(self._setting)

    @property
    def _setting(self) -> tuple:
        return self.model, self.shape, self.classes, self.options


@partial(program, static_argnums=0)
def _drawn(setting: tuple, key):
    model, shape, classes, options = setting
    return maker(model, shape, classes, **dict(options))(key)


@cache
def _statistics(setting: tuple) -> tuple[str, ...]:
    """Return the names of running means and variances."""
    names = leaves_by_name(jax.eval_shape(partial(_drawn, setting), jax.random.key(0)))
    return tuple(name for name in names if name.endswith(("running_mean", "running_var")))


@cache
def _activation_bytes(setting: tuple) -> int:
    """Return how many more bytes the activations of two images take than those of one."""
    x = jax.eval_shape(partial(_drawn, setting), jax.random.key(0))

    def traced(rows: int) -> "ClosedJaxpr":
        images, counted = jax.ShapeDtypeStruct((rows, *setting[1]), jnp.result_type(float)), jax.ShapeDtypeStruct((rows,), bool)
        mask = {"counted": counted} if getattr(x, "mixes_rows", False) else {}

        def outputs(x, images, mask):
            return x(images, **mask, **({"moved": {}} if mask else {}))

        return jax.make_jaxpr(outputs)(x, images, mask)

    return bytes_of_a_row(traced)


def maker(model: str, shape: tuple[int, int, int], classes: int, **options) -> Callable:
    """Return the function from a key to a network of the type `model`; `UserError` for an unknown name or option.

    Args:
        model: Name of the type.
        shape: (h, w, channels) of the images.
        classes: Number of classes.
        **options: Options of the type.
    """
    # Slow to import.
    from turnout.problems.models import MODELS

    if model not in MODELS:
        raise unknown("model", model, MODELS)
    for option in options:
        if option not in signature(MODELS[model]).parameters:
            raise UserError(f"model {model!r} has no {option}: leave it out")
    return partial(MODELS[model], shape, classes, **options)


def flat_images(name: str, images, shape: Sequence[int] | None) -> tuple[np.ndarray | Column, tuple[int, int, int]]:
    """Return `images` as [rows, h w channels], as bytes if that is exact, and their (h, w, channels).

    Args:
        name: Name of the data set, for error messages.
        images: Images, or flat rows.
        shape: (h, w) or (h, w, channels) of flat rows; None for squares with one channel.
    """
    if not isinstance(images, np.ndarray | Column):
        raise UserError(f"data set {name} is sparse, but model inputs are images: take problem kind 'network'")
    if images.ndim > 2:
        given = images.shape[1:]
        images = images.recoded(flattened) if isinstance(images, Column) else flattened(images)
    else:
        given = (isqrt(images.shape[1]),) * 2
    size = given if shape is None else tuple(shape)
    size = (*size, 1) if len(size) == 2 else size
    if len(size) != 3 or prod(size) != images.shape[1]:
        raise UserError(
            f"an image of data set {name} has {images.shape[1]} numbers, which are not {' x '.join(map(str, size))}: "
            "give shape = [height, width] or [height, width, channels]"
        )
    return images if images.dtype == np.uint8 or isinstance(images, Column) else in_bytes(images), size


def flattened(images: np.ndarray) -> np.ndarray:
    """Return images as rows."""
    return images.reshape(len(images), -1)


def in_bytes(images: np.ndarray) -> np.ndarray:
    """Return the bytes k of pixels k / 255 [rows, d], or `images` itself if a pixel is no such number."""
    bytes_ = np.empty(images.shape, np.uint8)
    for first in range(0, len(images), ROWS):
        part = images[first : first + ROWS]
        whole = np.clip(np.rint(part * PIXEL), 0, PIXEL)
        if not np.array_equal(whole / PIXEL, part):
            return images
        bytes_[first : first + ROWS] = whole
    return bytes_
