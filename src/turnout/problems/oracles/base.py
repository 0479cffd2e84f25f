"""What a client that does not write its loss in JAX has to provide."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from jaxtyping import PyTree

from turnout.core.errors import UserError

ALL = slice(None)
"""In the place of row numbers: all rows."""


class NotParallel(Exception):
    """A local method cannot be run beside others."""


class Oracle(ABC):
    """f_i, the mean loss over a client's `size` rows, at parameters whose leaves are NumPy arrays.

    `rows` are the numbers [b] of the rows to take the mean over, each as often as it is there, or `ALL`.
    """

    size: int

    returns_new_arrays: ClassVar[bool] = False
    """Whether nobody else writes into an array that it has answered with, so that none has to be copied."""

    in_parallel: bool = False
    """Whether it works beside others, so that JAX has no thread left to call it back from."""

    @abstractmethod
    def value(self, x: PyTree, rows: Any) -> float:
        """Return the mean loss over `rows` at x."""

    @abstractmethod
    def value_and_grad(self, x: PyTree, rows: Any) -> tuple[float, PyTree]:
        """Return the mean loss over `rows` at x, and its gradient, structured as x is."""

    def hvp(self, x: PyTree, v: PyTree, rows: Any) -> PyTree:
        """Return the Hessian of the mean loss over `rows` at x, times v."""
        raise UserError(f"{type(self).__name__} has no Hessian: take an algorithm or solver that needs gradients only")

    def accuracy(self, x: PyTree) -> float:
        """Return the share of the rows that x classifies rightly."""
        raise UserError(f"{type(self).__name__} does not classify, so it has no accuracy: take another metric")

    @staticmethod
    def run_parallel(tasks: list[Callable]) -> list | None:
        """Return what `tasks` return, local methods of clients with oracles of this type, several done at a time.

        None where they are in each other's way, or one fails: they are to be done in turn.
        """
        return None

    def local_work(self, key) -> AbstractContextManager["Oracle"]:
        """Return what surrounds a local method, in which whatever the loss draws by itself, as dropout does, follows `key`.

        It gives the oracle to work with, which is another one where this one is in use.
        """
        return nullcontext(self)

    def evaluating(self) -> AbstractContextManager:
        """Return what surrounds the evaluation of metrics, in which nothing is drawn and nothing learnt."""
        return nullcontext()
