"""The `[problem]` table of a configuration: one class for each kind."""

from dataclasses import field
from typing import ClassVar, Literal

import numpy as np

from turnout import problems
from turnout.core.errors import UserError
from turnout.core.records import Count, Fraction, Index, NonNegative, Positive, Proper, config
from turnout.data.dataset import Dataset
from turnout.data.quadratics import quadratics
from turnout.data.source import Source
from turnout.data.splits import Split
from turnout.problems.base import Precision, Problem


@config
class DataSpec:
    """A problem on a data set.

    Args:
        data: A known name, a path to a LIBSVM file, or a table with a kind.
        normalize: What is scaled to length 1 ("rows") or to mean 0 and deviation 1 ("columns") first.
        weights: lambda_i, the same for every client ("uniform") or proportional to its number of rows ("size").
        test: The test data, in the same forms as `data`.
        held_out: The clients that are never drawn and serve to evaluate the model: a number, or a share below 1.
        own_test: The share of each client's rows that it is tested with, in the place of `test`.
    """

    data: str | Source
    normalize: Literal["none", "rows", "columns"] = "none"
    weights: Literal["uniform", "size"] = "uniform"
    test: str | Source | None = None
    held_out: Positive | None = None
    own_test: Proper | None = None

    def __post_init__(self):
        if self.own_test == 0:
            raise UserError("own_test is a share of each client's rows between 0 and 1, but it is 0: leave it out")
        if self.own_test is not None and self.test is not None:
            raise UserError("own_test takes rows of the clients to test with, and test names others: leave one of them out")

    def build(self, dataset: Dataset, split: Split) -> Problem:
        """Return the problem on `dataset` with the clients of `split`.

        Args:
            dataset: The data set.
            split: Rows of each client.
        """
        raise UserError(f"{type(self).__name__} has no build(self, dataset, split): write one")

    def to_test(self, test: Dataset, train: Dataset) -> Problem:
        """Return the problem of one client with the rows of `test`, with the columns and the classes of `train`.

        Args:
            test: The test set.
            train: The training set.
        """
        test = test.like(train, self.numbers_labels)
        return self.build(test, Split.of([np.arange(test.rows)], test.rows))

    @property
    def numbers_labels(self) -> bool:
        """Whether classes are numbered by the labels in the data, so that a test set has no further ones."""
        return True

    def client_weights(self, split: Split) -> np.ndarray | None:
        """Return the weights [n], up to a factor; None for uniform weights."""
        return split.sizes.astype(float) if self.weights == "size" else None


@config
class LogisticSpec(DataSpec):
    """Binary logistic regression: see `problems.Logistic`, and with `alpha` above 0 `problems.NonconvexLogistic`."""

    mu: NonNegative = 0.1
    alpha: NonNegative = 0.0

    def build(self, dataset: Dataset, split: Split) -> Problem:
        weights = self.client_weights(split)
        if self.alpha:
            return problems.NonconvexLogistic.of(dataset, split, self.mu, weights, self.alpha)
        return problems.Logistic.of(dataset, split, self.mu, weights)


@config
class MultinomialSpec(DataSpec):
    """Multinomial logistic regression: see `problems.Multinomial`."""

    mu: NonNegative = 0.0
    initial: Literal["zeros", "uniform"] = "zeros"
    intercept: bool = True

    def build(self, dataset: Dataset, split: Split) -> Problem:
        return problems.Multinomial.of(dataset, split, self.mu, self.client_weights(split), self.initial, self.intercept)


@config
class RidgeSpec(DataSpec):
    """Ridge regression: see `problems.Ridge`."""

    mu: NonNegative = 0.1

    @property
    def numbers_labels(self) -> bool:
        return False

    def build(self, dataset: Dataset, split: Split) -> Problem:
        return problems.Ridge.of(dataset, split, self.mu, self.client_weights(split))


@config
class NetworkSpec(DataSpec):
    """A two-layer network: see `problems.Network`."""

    mu: NonNegative = 0.0
    hidden: Count = 32
    activation: Literal["tanh", "relu"] = "tanh"
    intercept: bool = True

    def build(self, dataset: Dataset, split: Split) -> Problem:
        weights = self.client_weights(split)
        return problems.Network.of(dataset, split, self.hidden, self.mu, weights, self.activation, self.intercept)


@config
class NeuralSpec(DataSpec):
    """A neural network on images: see `problems.Neural.of`; `hidden` and `norm` belong to some models only."""

    model: str = field(kw_only=True)
    mu: NonNegative = 0.0
    classes: Count | None = None
    shape: list[Count] | None = None
    hidden: Count | None = None
    norm: Literal["none", "group", "batch"] | None = None

    precision: ClassVar[Precision] = problems.Neural.precision

    @property
    def numbers_labels(self) -> bool:
        return self.classes is None

    def build(self, dataset: Dataset, split: Split) -> Problem:
        options = {name: getattr(self, name) for name in ("hidden", "norm") if getattr(self, name) is not None}
        weights = self.client_weights(split)
        return problems.Neural.of(dataset, split, self.model, self.mu, weights, self.classes, self.shape, **options)


@config
class LogSumSpec:
    """Generated quadratics with the log-sum penalty: see `data.quadratics` and `problems.LogSum`."""

    clients: Count = 100
    dimension: Count = 1000
    parts: Count = 5
    alpha: NonNegative = 10.0
    similarity: Positive | None = None
    curvature: Positive | None = None
    flat: Index = 0
    seed: Index = 0
    shallow: Fraction = 1.0

    def build(self) -> Problem:
        """Return the problem."""
        options = {name: value for name, value in vars(self).items() if name != "alpha"}
        forms = quadratics(**options)
        return problems.LogSum.of(*forms, alpha=self.alpha)

    def split(self) -> Split:
        """Return the split with one row for each client."""
        return Split.of(list(np.arange(self.clients)[:, None]), self.clients)


@config
class ChainSpec:
    """The worst-case chain, which needs no data: see `problems.Chain.of`."""

    clients: Count
    length: Count
    mu: Positive
    smoothness: Positive

    def build(self) -> Problem:
        """Return the problem."""
        return problems.Chain.of(self.clients, self.length, self.mu, self.smoothness)

    def split(self) -> Split:
        """Return which client has which of the links 0, ..., length, which are the rows."""
        links = np.arange(self.length + 1)
        return Split.of([links[i :: self.clients] for i in range(self.clients)], links.size)
