"""`Oracle`: the interface of a client's loss that is not written in JAX."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from jaxtyping import PyTree

from turnout.core.errors import UserError

ALL = slice(None)
"""All rows, in place of row numbers."""


class NotParallel(Exception):
    """A local method cannot run together with others; the text, if any, is for the user."""


class Oracle(ABC):
    """f_i, the mean loss over a client's rows, as ordinary Python.

    A subclass defines `size`, `value` and `value_and_grad`; `hvp` and `accuracy` are needed by some algorithms and metrics only.
    Parameters x are a pytree of NumPy arrays. `rows` are the numbers [b] of the rows to take the mean over, with repetitions, or
    `slice(None)` for all rows.

    Examples:
        >>> import numpy as np
        >>> import turnout as t
        >>> class Mean(t.Oracle):
        ...     size = 3
        ...     points = np.array([1.0, 2.0, 6.0])
        ...
        ...     def value(self, x, rows):
        ...         return np.mean((x - self.points[rows]) ** 2) / 2
        ...
        ...     def value_and_grad(self, x, rows):
        ...         return self.value(x, rows), x - np.mean(self.points[rows])
        >>> problem = t.Remote.of(np.zeros(()), [Mean(), Mean()])
        >>> t.run(t.Gd(t.Full(), lr=1.0), problem, rounds=1, engine="nodes", metrics=("value",)).x.tolist()
        3.0
    """

    size: int
    """n_i, the number of rows."""

    returns_new_arrays: ClassVar[bool] = False
    """Whether every returned array is new, so that it need not be copied."""

    asked_at_points: ClassVar[bool] = False
    """Whether it is asked at a `Point` where the model has groups, rather than at whole models."""

    has_gradients: ClassVar[bool] = True
    """Whether there are gradients; otherwise the client trains on its own, by `trained`."""

    in_parallel: bool = False
    """Whether local methods of several clients run in parallel, where JAX cannot call back from a compiled program."""

    @abstractmethod
    def value(self, x: PyTree, rows: Any) -> float:
        """Return the mean loss over `rows` at x.

        Args:
            x: Parameters.
            rows: Numbers of the rows [b], or `slice(None)` for all.
        """

    @abstractmethod
    def value_and_grad(self, x: PyTree, rows: Any) -> tuple[float, PyTree]:
        """Return the mean loss over `rows` at x and its gradient, structured as x.

        Args:
            x: Parameters.
            rows: Numbers of the rows [b], or `slice(None)` for all.
        """

    def step(self, x: PyTree, rows: Any, factor: float) -> PyTree | None:
        """Return x + factor grad f_i(x), rounded as NumPy rounds it; None leaves it to the caller.

        Args:
            x: Parameters.
            rows: Numbers of the rows [b], or `slice(None)` for all.
            factor: The negative step size.
        """
        return None

    def trained(self, x: PyTree, work: dict[str, Any]) -> PyTree:
        """Return what the client's own training makes of x, structured as x, where it has no gradients.

        Args:
            x: Parameters.
            work: What the algorithm asks for: those of "lr", "steps", "batch" and "epochs" that are given.
        """
        raise UserError(f"{type(self).__name__} has gradients, and no training of its own")

    def hvp(self, x: PyTree, v: PyTree, rows: Any) -> PyTree:
        """Return the product of v and the Hessian at x of the mean loss over `rows`.

        Args:
            x: Parameters.
            v: Direction, shaped like x.
            rows: Numbers of the rows [b], or `slice(None)` for all.
        """
        raise UserError(f"{type(self).__name__} has no Hessian: take an algorithm or solver that needs gradients only")

    def accuracy(self, x: PyTree) -> float:
        """Return the share of the rows that x classifies correctly."""
        raise UserError(f"{type(self).__name__} does not classify, so it has no accuracy: take another metric")

    def training(self, x: Any, rows: Any) -> tuple[tuple[float, dict[str, Any]], dict[str, Any]]:
        """Return ((the mean loss over `rows`, the statistics after this pass by name), the gradient by name).

        Args:
            x: A `Point`.
            rows: Numbers of the rows [b], or `slice(None)` for all.
        """
        raise UserError(f"{type(self).__name__} has no statistics that training moves: give the problem none")

    @property
    def running(self) -> dict[str, Any]:
        """The statistics that training moves without a gradient, by name."""
        return {}

    def saved(self, x: PyTree) -> PyTree:
        """Return what the file of a model with the parameters x holds: x, and all else that the model needs, by name."""
        return x

    def kept(self) -> dict[str, Any]:
        """Return what stays with the client beside x and its statistics, and computing may change, by name."""
        return {}

    def ways_together(self, others: list[Any]) -> list[Callable[[list[Callable]], list]]:
        """Return ways to run local methods of this client and others together, the fastest first.

        Each takes the local methods as tasks and returns their results, or raises `NotParallel`.

        Args:
            others: Oracles of this type.
        """
        return []

    def local_work(self, key) -> AbstractContextManager["Oracle"]:
        """Return the context of a local method, which yields the oracle to use.

        Inside it the random numbers that the loss draws, as dropout does, depend on `key` only.
        """
        return nullcontext(self)

    def evaluating(self) -> AbstractContextManager:
        """Return the context of the evaluation of metrics, in which the loss draws nothing and updates no statistics."""
        return nullcontext()
