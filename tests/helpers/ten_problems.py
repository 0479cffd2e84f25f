"""Ten problems of one shape that differ in data, heterogeneity, conditioning and weights, on which theorems are checked."""

from typing import NamedTuple

import numpy as np

import turnout as t
from turnout.data.dataset import Dataset
from turnout.data.splits import Split


class Kind(NamedTuple):
    """The largest eigenvalue of the first A_i is `condition` times the smallest.

    A `share` of each A_i is the client's own, the rest is common; minimisers of the f_i are `spread` apart around a common point;
    client i's f_i is multiplied by a number from 1 / `scale` to `scale`, and weighs up to `heaviest` times as much as another.
    """

    condition: float
    share: float
    spread: float
    scale: float = 1.0
    heaviest: float = 1.0


KINDS = (
    Kind(10, 0.0, 0.0),
    Kind(10, 1.0, 1.0),
    Kind(30, 0.1, 1.0, heaviest=2.0),
    Kind(100, 1.0, 10.0, heaviest=5.0),
    Kind(100, 0.0, 3.0),
    Kind(300, 0.5, 1.0, scale=2.0, heaviest=3.0),
    Kind(1000, 1.0, 1.0),
    Kind(1000, 0.1, 10.0, heaviest=2.0),
    Kind(10, 1.0, 100.0, scale=5.0, heaviest=20.0),
    Kind(1000, 0.5, 0.0, scale=3.0, heaviest=3.0),
)
"""From clients that are all alike to clients that share little."""


def weights_of(number: int, clients: int) -> np.ndarray:
    """lambda_i [n] of a problem, in a random order."""
    weights = np.geomspace(1.0, KINDS[number].heaviest, clients)
    return np.random.default_rng(number).permutation(weights / weights.sum())


def quadratic(
    number: int, clients: int = 10, dimension: int = 6, equal: bool = False, alike: bool = False, common: bool = False
) -> t.Quadratic:
    """One of ten quadratics, with mu from 1 / 4 to 2; `equal` weights, clients that are all `alike`, or a `common` minimiser."""
    kind, generator = KINDS[number], np.random.default_rng(100 + number)
    mu = generator.uniform(0.25, 2.0)
    own = t.Quadratic.random(clients, dimension, mu, mu * kind.condition, seed=number).rows[0]
    share, spread = 0.0 if alike else kind.share, 0.0 if alike or common else kind.spread
    scale = np.geomspace(1 / kind.scale, kind.scale, clients) ** (not alike)
    matrices = scale[:, None, None] * ((1 - share) * own[0] + share * own)
    optima = generator.normal(size=dimension) + spread * generator.normal(size=(clients, dimension))
    vectors = np.einsum("nij,nj->ni", matrices, optima)
    return t.Quadratic.of(matrices, vectors, weights=None if equal else weights_of(number, clients))


SIZES = np.array([3, 8, 40, 8, 8, 1, 3, 60, 8, 8, 3, 3])
"""Rows of the clients of a logistic problem."""


def ridge(number: int, clients: int, rows: int, dimension: int) -> t.Ridge:
    """One of ten ridge regressions of equal weights and rows, whose targets come from models that are `spread` apart."""
    kind, generator, count = KINDS[number], np.random.default_rng(300 + number), clients * rows
    client = np.repeat(np.arange(clients), rows)
    features = generator.normal(size=(count, dimension)) * np.geomspace(1.0, kind.scale, clients)[client, None]
    models = generator.normal(size=dimension) + kind.spread * generator.normal(size=(clients, dimension))
    targets = np.einsum("rd,rd->r", features, models[client]) + generator.normal(size=count)
    mu = float(np.max(np.sum(features**2, axis=1)) / kind.condition)
    return t.Ridge.of(Dataset("made", features, targets), Split(np.arange(count), rows * np.arange(clients + 1)), mu=mu)


def logistic(number: int, dimension: int = 5) -> t.Logistic:
    """One of ten logistic regressions with twelve clients, mu from 1e-3 to 1e-1, features and labels that differ by `spread`."""
    kind, generator = KINDS[number], np.random.default_rng(200 + number)
    client, apart = np.repeat(np.arange(SIZES.size), SIZES), kind.spread / (1 + kind.spread)
    features = generator.normal(size=(client.size, dimension)) + apart * generator.normal(size=(SIZES.size, dimension))[client]
    models = generator.normal(size=dimension) + kind.spread * generator.normal(size=(SIZES.size, dimension))
    scores = np.einsum("rd,rd->r", features, models[client]) + generator.normal(size=client.size)
    split = Split(np.arange(client.size), np.concatenate([[0], np.cumsum(SIZES)]))
    dataset = Dataset("made", features, np.where(scores > 0, 1.0, -1.0))
    return t.Logistic.of(dataset, split, mu=1 / kind.condition, weights=weights_of(number, SIZES.size))
