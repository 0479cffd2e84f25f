"""Image classification by the networks of `turnout.problems.models`."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import signature
from math import isqrt, prod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from turnout.core.errors import UserError, unknown
from turnout.core.records import record, static
from turnout.problems.base import Precision
from turnout.problems.classifier import Classifier
from turnout.problems.federate import federate_classes

PIXEL = 255
"""What a byte is divided by."""

WORK = 2**26
"""Bytes of results between rows and logits, of as many rows as are passed over at once."""

LARGE = ("concatenate", "dot_general")
"""Operations whose results are counted; those of others, patches and products apart, are fused with them."""

GROUP = 64
"""Rows that have statistics in common where all rows of a client are passed over: so many, in their order."""

ROWS = 4096
"""Images that are turned into bytes at once."""


@record
class Neural(Classifier):
    """A `Classifier` with logits(a) = x(a), where the parameters x are a network: see `turnout.problems.models`.

    Rows are (images [rows, h w channels], labels). Images are numbers, or bytes k that stand for k / 255; `shape` is (h, w,
    channels) and `options` are what `model` takes further.
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
        """Cut `dataset` into clients; its features are flat images, or images [rows, h, w] or [rows, h, w, channels].

        Of flat images `shape` is (h, w) or (h, w, channels), by default a square of one channel. With `classes` labels are 0,
        ..., `classes` - 1 as they are; else those that there are, numbered in increasing order. `UserError` where anything
        does not fit.
        """
        parts = federate_classes(dataset, split, weights, classes)
        images, labels = parts.pop("rows")
        images, size = flat_images(dataset.name, images, shape)
        make = maker(model, size, classes=parts["classes"], **options)
        # Whether images and options fit the model shows without any weights.
        jax.eval_shape(make, jax.random.key(0))
        return cls((images, labels), **parts, mu=mu, model=model, shape=size, options=tuple(sorted(options.items())))

    def logits(self, x, features, **counted):
        dtype = jax.tree.leaves(x)[0].dtype
        images = features.astype(dtype) / jnp.asarray(PIXEL if features.dtype == jnp.uint8 else 1, dtype)
        return x(images.reshape(-1, *self.shape), **counted)

    def start(self, key):
        """Draw the weights as the model says."""
        return _drawn(self._setting, key)

    @property
    def activation_bytes(self):
        return _activation_bytes(self._setting)

    @property
    def rows_at_once(self):
        return GROUP if self.mixes_rows else max(1, WORK // self.activation_bytes)

    @property
    def mixes_rows(self):
        return getattr(jax.eval_shape(partial(_drawn, self._setting), jax.random.key(0)), "mixes_rows", False)

    @property
    def _setting(self) -> tuple:
        return self.model, self.shape, self.classes, self.options


@partial(jax.jit, static_argnums=0)
def _drawn(setting: tuple, key):
    model, shape, classes, options = setting
    return maker(model, shape, classes, **dict(options))(key)


@cache
def _activation_bytes(setting: tuple) -> int:
    """How many more bytes results take for two images than for one."""
    x = jax.eval_shape(partial(_drawn, setting), jax.random.key(0))

    def total(rows: int) -> int:
        images, counted = jax.ShapeDtypeStruct((rows, *setting[1]), jnp.result_type(float)), jax.ShapeDtypeStruct((rows,), bool)
        told = {"counted": counted} if getattr(x, "mixes_rows", False) else {}
        program = jax.make_jaxpr(lambda x, images, told: x(images, **told))(x, images, told)
        kept = [equation.outvars[0].aval for equation in program.eqns if equation.primitive.name in LARGE]
        return sum(result.size * result.dtype.itemsize for result in kept)

    return total(2) - total(1)


def maker(model: str, shape: tuple[int, int, int], classes: int, **options) -> Callable:
    """Return what makes the network of a name from a key; `UserError` where there is none, or none with such options."""
    # Slow to import.
    from turnout.problems.models import MODELS

    if model not in MODELS:
        raise unknown("model", model, MODELS)
    for option in options:
        if option not in signature(MODELS[model]).parameters:
            raise UserError(f"model {model!r} has no {option}: leave it out")
    return partial(MODELS[model], shape, classes, **options)


def flat_images(name: str, images, shape: Sequence[int] | None) -> tuple[np.ndarray, tuple[int, int, int]]:
    """Return `images` as [rows, h w channels], in bytes where that loses nothing, and their (h, w, channels)."""
    if not isinstance(images, np.ndarray):
        raise UserError(f"data set {name} is sparse, but model inputs are images: take problem kind 'network'")
    if images.ndim > 2:
        given, images = images.shape[1:], images.reshape(len(images), -1)
    else:
        given = (isqrt(images.shape[1]),) * 2
    size = given if shape is None else tuple(shape)
    size = (*size, 1) if len(size) == 2 else size
    if len(size) != 3 or prod(size) != images.shape[1]:
        raise UserError(
            f"an image of data set {name} has {images.shape[1]} numbers, which are not {' x '.join(map(str, size))}: "
            "give shape = [height, width] or [height, width, channels]"
        )
    return images if images.dtype == np.uint8 else in_bytes(images), size


def in_bytes(images: np.ndarray) -> np.ndarray:
    """Return k for pixels k / 255 with whole k, [rows, d]; `images` themselves where one is anything else."""
    bytes_ = np.empty(images.shape, np.uint8)
    for first in range(0, len(images), ROWS):
        some = images[first : first + ROWS]
        whole = np.clip(np.rint(some * PIXEL), 0, PIXEL)
        if not np.array_equal(whole / PIXEL, some):
            return images
        bytes_[first : first + ROWS] = whole
    return bytes_
