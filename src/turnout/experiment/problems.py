"""How a configuration names a problem: its kind, its data and its constants."""

from typing import Literal

import numpy as np

from turnout import problems
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.problem import Problem
from turnout.records import Count, NonNegative, config


@config
class DataSpec:
    """`data` is a known name or a path to a LIBSVM file; `normalize` scales its rows or columns first.

    `weights` says what lambda_i is: the same for every client ("uniform") or proportional to its rows ("size").
    """

    data: str
    normalize: Literal["none", "rows", "columns"] = "none"
    weights: Literal["uniform", "size"] = "uniform"

    def client_weights(self, split: Split) -> np.ndarray | None:
        return split.sizes.astype(float) if self.weights == "size" else None


@config
class LogisticSpec(DataSpec):
    """Binary logistic regression: see `problems.Logistic`."""

    mu: NonNegative = 0.1

    def build(self, dataset: Dataset, split: Split) -> Problem:
        return problems.Logistic.of(dataset, split, self.mu, self.client_weights(split))


@config
class RidgeSpec(DataSpec):
    """Ridge regression: see `problems.Ridge`."""

    mu: NonNegative = 0.1

    def build(self, dataset: Dataset, split: Split) -> Problem:
        return problems.Ridge.of(dataset, split, self.mu, self.client_weights(split))


@config
class NetworkSpec(DataSpec):
    """A two-layer network: see `problems.Network`."""

    mu: NonNegative = 0.0
    hidden: Count = 32

    def build(self, dataset: Dataset, split: Split) -> Problem:
        return problems.Network.of(dataset, split, self.hidden, self.mu, self.client_weights(split))
