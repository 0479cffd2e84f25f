"""`Wrapped`: a problem around another one, of which it has everything that it does not define itself."""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from turnout.core.records import record
from turnout.problems.base import Problem


@record
class Wrapped(Problem):
    """A problem around another one, whose attributes are also those of this one.

    Args:
        rows: The data of all clients.
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        inner: The problem inside, without its rows.
    """

    inner: Problem

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "inner" not in vars(self):
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def inside(self) -> Problem:
        """The problem inside, with its rows."""
        return _with(self.inner, **{name: getattr(self, name) for name in ("rows", "offsets", "population", "schema")})

    def without_clients(self):
        return replace(self, schema=None, inner=self.inner.without_clients())

    @property
    def statistics(self):
        return self.inner.statistics

    @property
    def trains_apart(self):
        return self.inner.trains_apart

    @property
    def takes_keys(self):
        return self.inner.takes_keys

    @property
    def classifies(self) -> bool:  # type: ignore
        return self.inner.classifies

    @property
    def has_perplexity(self) -> bool:  # type: ignore
        return self.inner.has_perplexity

    @property
    def twice_differentiable(self) -> bool:  # type: ignore
        return self.inner.twice_differentiable

    @property
    def remote(self) -> bool:  # type: ignore
        return self.inner.remote

    @property
    def precision(self):  # type: ignore
        return self.inner.precision

    @property
    def codes(self):
        return self.inner.codes

    @property
    def activation_bytes(self):
        return self.inner.activation_bytes

    @property
    def rows_at_once(self):
        return self.inner.rows_at_once

    @property
    def mixes_rows(self):
        return self.inner.mixes_rows


def without_rows(problem: Problem) -> Problem:
    """Return a problem as `Wrapped.inner` is: without its rows.

    Args:
        problem: The problem.
    """
    return _with(problem, rows=(), offsets=np.zeros(1, int), schema=None)


def parts_of(problem: Problem) -> tuple:
    """Return the first fields of a `Wrapped` around a problem: its rows, offsets and population, and the problem without rows.

    Args:
        problem: The problem.
    """
    return problem.rows, problem.offsets, problem.population, without_rows(problem)


def bare(problem: Problem) -> Problem:
    """Return the problem in all that is around it.

    Args:
        problem: A problem.
    """
    while isinstance(problem, Wrapped):
        problem = problem.inside
    return problem


def _with(problem: Problem, **fields: Any) -> Problem:
    """Return a copy of a record with fields replaced, unchecked: what it holds fits only together with a `Wrapped`."""
    problem = copy(problem)
    for name, value in fields.items():
        object.__setattr__(problem, name, value)
    return problem
