"""An oracle around another one, which is asked at a `Point`."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from turnout.problems.oracles.base import Oracle


class WrappedOracle(Oracle):
    """An oracle around another one, with which it shares all but what it is asked.

    Args:
        oracle: The oracle inside.
        problem: The problem around the one that the oracle inside is of, which knows the model.
    """

    def __init__(self, oracle: Oracle, problem: Any):
        self.oracle, self.problem, self.size = oracle, problem, oracle.size

    @property
    def returns_new_arrays(self) -> bool:  # type: ignore
        """Whether every returned array is new."""
        return self.oracle.returns_new_arrays

    @property
    def in_parallel(self) -> bool:  # type: ignore
        """Whether local methods of several clients run in parallel."""
        return self.oracle.in_parallel

    @property
    def running(self):
        return self.oracle.running

    def saved(self, x):
        return self.oracle.saved(x)

    def kept(self):
        return self.oracle.kept()

    def ways_together(self, others):
        inside = [one.oracle for one in others]
        return self.oracle.ways_together(inside) if {type(one) for one in inside} <= {type(self.oracle)} else []

    @contextmanager
    def local_work(self, key) -> Iterator["WrappedOracle"]:
        with self.oracle.local_work(key) as oracle:
            inside = copy(self)
            inside.oracle = oracle
            yield inside

    def evaluating(self):
        return self.oracle.evaluating()
