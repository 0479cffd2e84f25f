"""A small problem of which the model has all kinds of leaves: regression on features that are centred by running means."""

from functools import cache
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

import turnout as t

CLIENTS, SIZES, DIMENSION, MOMENTUM = 6, (4, 7, 5, 6, 3, 5), 3, 0.1


@t.record
class Centred(t.Problem):
    """Least squares of (a - m) . weight + bias, m being the mean of the batch in training, and the running mean in evaluation."""

    strongly_convex: ClassVar[bool] = False

    def losses(self, x, rows, counted=None):
        return self._errors(x, rows, x["running_mean"]) ** 2 / 2

    def training(self, x, rows, counted, key):
        weights = counted.astype(rows[0].dtype)
        mean = weights @ rows[0] / jnp.maximum(jnp.sum(weights), 1)
        moved = x["running_mean"] + MOMENTUM * (mean - x["running_mean"])
        return self._errors(x, rows, mean) ** 2 / 2, {"running_mean": moved}

    def _errors(self, x, rows, mean):
        features, targets = rows
        return (features - mean[None]) @ x["weight"] + x["bias"][None] - targets

    def regulariser(self, x):
        return 0.05 * (jnp.vdot(x["weight"], x["weight"]) + jnp.vdot(x["bias"], x["bias"]))

    def start(self, key):
        return {"weight": jnp.full(DIMENSION, 0.5), "bias": jnp.ones(()), "running_mean": jnp.zeros(DIMENSION)}

    @property
    def statistics(self):
        return ("running_mean",)

    @property
    def mixes_rows(self):
        return True


@cache
def centred() -> Centred:
    """Six clients, whose features and targets have means of their own."""
    generator, offsets = np.random.default_rng(3), np.cumsum([0, *SIZES])
    features = generator.normal(size=(offsets[-1], DIMENSION)) + np.repeat(generator.normal(size=CLIENTS), SIZES)[:, None]
    targets = features @ np.array([1.0, -1.0, 0.5]) + np.repeat(generator.normal(size=CLIENTS), SIZES)
    return Centred((features, targets), offsets, t.Population(count=CLIENTS))
