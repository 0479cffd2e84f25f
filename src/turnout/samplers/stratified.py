"""Stratified sampling: one client from each stratum."""

from dataclasses import field, replace
from typing import Any, Literal

import numpy as np

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Count, record, static
from turnout.problems.base import Population
from turnout.samplers.base import Sampler
from turnout.samplers.clustering import by_labels, by_optimum, by_rows
from turnout.samplers.gradient_strata import GradientStratified
from turnout.samplers.strata import check_strata, draw_from_strata, partition

MAKERS = {"rows": by_rows, "labels": by_labels, "optimal": by_optimum}


@record
class Stratified(Sampler):
    """One uniform client from each stratum C_j: p_i = 1 / |C_j| (Cohort Squeeze, Yi et al., 2024, section 2.3).

    With `size` = s of the b strata, one client from each of s uniform strata: p_i = (s / b) / |C_j| (Algorithm 4).

    Args:
        strata: Number of each client's stratum [n], from 0, without gaps; None takes those of the split.
        size: Number s of strata in a cohort; None takes all.
        by: How strata are made: "split" takes those given; "rows" by k-means of the clients' mean feature rows; "labels" by
            k-means of their label shares; "gradients" minimises the variance for the clients' gradients at the current model,
            which are asked for, and charged, before round 1; "optimal" minimises it for the gradients at the minimiser
            (Definition 11), an oracle for experiments.
        clusters: Number of strata to make, unless `by` is "split".
        every: With "gradients", make new strata every so many rounds; None makes them once.
        order: Set by `bind`: the clients sorted by stratum.
        starts: Set by `bind`: where each stratum starts in `order`.

    Raises:
        UserError: If the arguments exclude each other; on fitting, if the strata do not fit.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=6)
        >>> cohort = t.Stratified([0, 0, 1, 1, 1, 1]).bind(population).draw(None, jax.random.key(0), population)
        >>> [i // 2 > 0 for i in cohort.ids.tolist()], cohort.expansion.tolist()
        ([False, True], [2.0, 4.0])
    """

    strata: list[int] | np.ndarray | None = None
    size: Count | None = static(default=None)
    by: Literal["split", "rows", "labels", "gradients", "optimal"] = static(default="split")
    clusters: Count | None = static(default=None)
    every: Count | None = None
    order: Any = field(default=None, repr=False, kw_only=True)
    starts: Any = field(default=None, repr=False, kw_only=True)

    @property
    def _given(self) -> bool:
        """Whether the strata are those of the split, or of the user."""
        return self.by == "split"

    def __post_init__(self):
        if not self._given and self.strata is not None:
            raise UserError(f"sampler 'stratified' has both strata and by = {self.by!r}: leave one out")
        if self._given != (self.clusters is None):
            problem = "needs the number of" if self.clusters is None else "makes no strata, so it takes no"
            raise UserError(f"sampler 'stratified' by {self.by!r} {problem} clusters")
        if self.every is not None and self.by != "gradients":
            raise UserError("sampler 'stratified' makes new strata during a run by 'gradients' only: leave every out")

    def bind(self, population: Population):
        if not self._given:
            raise UserError(f"sampler 'stratified' by {self.by!r} looks at a problem: fit it to one")
        order, starts = partition(self.strata, population, "stratified")
        check_strata(self.size, starts.size - 1)
        return replace(self, strata=None, order=order, starts=starts)

    def fit(self, problem):
        if self._given:
            return self.bind(problem.population)
        clusters, n = self.clusters or 1, problem.clients
        if clusters > n:
            raise UserError(f"sampler 'stratified' wants {clusters} clusters of clients, but there are {n}: lower clusters")
        if self.by == "gradients":
            return GradientStratified(clusters, self.size, self.every).bind(problem.population)
        strata = MAKERS[self.by](problem, clusters)
        return replace(self, strata=strata, by="split", clusters=None).bind(problem.population)

    def draw(self, state, key, population) -> Cohort:
        return draw_from_strata(key, self.order, self.starts, self.size, population)
