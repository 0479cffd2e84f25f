"""Problems that are built once for all settings that share them."""

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from turnout.core.timing import part
from turnout.core.tree import bytes_of
from turnout.experiment.build import Built, build
from turnout.experiment.experiment import Experiment
from turnout.problems.base import Problem
from turnout.problems.curvature import smoothness
from turnout.problems.optimum import Optimum, solve
from turnout.studies.fingerprint import fingerprint
from turnout.studies.grid import CLIENTS, GivenProblem

KEPT = 2 * 2**30
"""Bytes of problems that are kept: a study asks for each several times, and k-means, for instance, takes long."""


@dataclass(frozen=True)
class Case:
    """A built problem."""

    built: Built

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.built.problem

    @cached_property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        return bytes_of(self.problem)

    @cached_property
    def optimum(self) -> Optimum:
        """Its minimiser and minimum."""
        with part("optimum"):
            return solve(self.problem)

    @cached_property
    def units(self) -> dict[str, float]:
        """The constants that numbers of a configuration may be multiples of.

        L is the largest L_i, or where these are not known the largest curvature of f at the start; that of remote clients is not.
        """
        clients = {CLIENTS: float(self.problem.population.count)}
        if self.problem.remote:
            return clients
        largest = smoothness(self.problem)
        return {"L": largest, "1/L": 1 / largest, **clients}


class Cases:
    """Builds problems, and keeps the last ones.

    Args:
        data: The folder with data files.
    """

    def __init__(self, data: Path | None = None):
        self.data = data
        self._kept: OrderedDict[str, Case] = OrderedDict()

    def of(self, experiment: Experiment) -> Case:
        """Return the problem of `experiment`."""
        trace = None if experiment.devices is None else experiment.devices.trace
        groups = experiment.groups, experiment.algorithm.model_groups
        mark = fingerprint(experiment.problem, experiment.split, experiment.run.start, trace, groups)
        if mark not in self._kept:
            self._kept[mark] = Case(self._build(experiment))
        self._kept.move_to_end(mark)
        while len(self._kept) > 1 and sum(case.nbytes for case in self._kept.values()) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[mark]

    def _build(self, experiment: Experiment) -> Built:
        spec = experiment.problem
        if isinstance(spec, GivenProblem):
            return Built(spec.problem, None, "", fingerprint(spec.problem))
        with part("data"):
            return build(experiment, self.data)
