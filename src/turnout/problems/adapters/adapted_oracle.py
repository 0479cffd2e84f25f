"""`AdaptedOracle`: a client's loss, which is no JAX function, of a model with adapters."""

from typing import Any

import numpy as np

from turnout.problems.base import Problem
from turnout.problems.oracles.base import Oracle
from turnout.problems.oracles.grouped_oracle import at_points
from turnout.problems.oracles.wrapped_oracle import WrappedOracle
from turnout.problems.row_sums import Point


class AdaptedOracle(WrappedOracle):
    """An oracle that is asked at a `Point` of leaves with adapters, and asks one of the model W + factor B A.

    With the gradient G along W, those along A and B are factor B^T G and factor G A^T.

    Args:
        oracle: The oracle of the model without adapters.
        problem: The `Adapted` problem, which knows the adapters.
    """

    asked_at_points = True

    def __init__(self, oracle: Oracle, problem: Problem):
        super().__init__(at_points(oracle, problem), problem)

    def value(self, x: Point, rows):
        return self.oracle.value(self._merged(x), rows)

    def value_and_grad(self, x: Point, rows):
        value, slopes = self.oracle.value_and_grad(self._merged(x), rows)
        return value, self._along(x, slopes)

    def training(self, x: Point, rows):
        (value, statistics), slopes = self.oracle.training(self._merged(x), rows)
        return (value, statistics), self._along(x, slopes)

    def hvp(self, x: Point, v, rows):
        leaves, merged = {**x.fixed, **x.varied}, self._merged(x)
        _, slopes = self.oracle.value_and_grad(merged, rows)
        changes = {name: v[name] if name in v else np.zeros_like(leaf) for name, leaf in merged.varied.items()}
        moves = {name: v[name] if name in v else np.zeros_like(leaves[name]) for name in self.problem.adapters}
        for site in self.problem.sites:
            if site.name in changes:
                move = moves[site.b] @ leaves[site.a] + leaves[site.b] @ moves[site.a]
                changes[site.name] = changes[site.name] + site.leaf(site.factor * move)
        products = self._along(x, self.oracle.hvp(merged, changes, rows))
        # A and B enter the model as a product, whose curvature is that of the slope along W.
        curved = self._chained(slopes, moves)
        return {name: leaf + curved[name] if name in curved else leaf for name, leaf in products.items()}

    def accuracy(self, x: Point):
        return self.oracle.accuracy(self._merged(x))

    def saved(self, x):
        return {**self.oracle.saved({name: x[name] for name in self.problem.leaves}), **x}

    def _merged(self, x: Point) -> Point:
        """Return the point of the model without adapters: each W varies that varies itself, or by its A or B."""
        leaves = {**x.fixed, **x.varied}
        merged = {name: leaves[name] for name in self.problem.leaves}
        varied = {*x.varied}
        for site in self.problem.sites:
            merged[site.name] = np.asarray(site.merged(leaves))
            if varied & {site.a, site.b}:
                varied.add(site.name)
        return Point(
            {name: leaf for name, leaf in merged.items() if name in varied},
            {name: leaf for name, leaf in merged.items() if name not in varied},
        )

    def _along(self, x: Point, slopes: dict[str, Any]) -> dict[str, Any]:
        """Return the gradient along what varies, given the one along the leaves of the model without adapters."""
        along = {**slopes, **self._chained(slopes, {**x.fixed, **x.varied})}
        return {name: along[name] for name in x.varied}

    def _chained(self, slopes: dict[str, Any], leaves: dict[str, Any]) -> dict[str, Any]:
        """Return factor B^T G and factor G A^T for each matrix of which there is a slope G, by the names of A and B."""
        chained = {}
        for site in self.problem.sites:
            if site.name in slopes:
                slope = site.factor * site.matrix(slopes[site.name])
                chained |= {site.a: leaves[site.b].T @ slope, site.b: slope @ leaves[site.a].T}
        return chained
