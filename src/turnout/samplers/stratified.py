"""One client from each stratum."""

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
from turnout.samplers.strata import draw_of_strata, needs_strata, partition

MAKERS = {"rows": by_rows, "labels": by_labels, "optimal": by_optimum}


@record
class Stratified(Sampler):
    """One uniform client from each stratum C_j: p_i = 1 / |C_j| (stratified sampling of Cohort Squeeze, section 2.3).

    With `size` = s of the b strata, from s uniform ones only: p_i = (s / b) / |C_j| (Algorithm 4).
    `strata` [n] numbers each client's stratum from 0; None takes those of the split. `by` makes others, `clusters` of them:
    "rows" k-means of the clients' mean feature rows, "labels" k-means of their label shares, "gradients" the best ones for the
    clients' gradients at the current model, asked for and charged before round 1 and then every `every` rounds, if that is
    given, "optimal" the best ones for the gradients at the minimiser (Definition 11): an oracle, for experiments.
    """

    strata: list[int] | np.ndarray | None = None
    size: Count | None = static(default=None)
    by: Literal["split", "rows", "labels", "gradients", "optimal"] = static(default="split")
    clusters: Count | None = static(default=None)
    every: Count | None = None
    order: Any = field(default=None, repr=False)
    starts: Any = field(default=None, repr=False)

    def __post_init__(self):
        if self.by != "split" and self.strata is not None:
            raise UserError(f"sampler 'stratified' is given strata, so that it needs none by {self.by!r}: leave one out")
        if (self.by == "split") != (self.clusters is None):
            word = "needs the number of" if self.clusters is None else "makes none, so that it takes no"
            raise UserError(f"sampler 'stratified' by {self.by!r} {word} clusters")
        if self.every is not None and self.by != "gradients":
            raise UserError("sampler 'stratified' makes strata again every so many rounds by 'gradients' only: leave every out")

    def bind(self, population: Population):
        if self.by != "split":
            raise UserError(f"sampler 'stratified' by {self.by!r} looks at a problem: fit it to one")
        order, starts = partition(self.strata, population, "stratified")
        needs_strata(self.size, starts.size - 1)
        return replace(self, strata=None, order=order, starts=starts)

    def fit(self, problem):
        if self.by == "split":
            return self.bind(problem.population)
        clusters, n = self.clusters or 1, problem.clients
        if clusters > n:
            raise UserError(f"sampler 'stratified' wants {clusters} clusters of clients, but there are {n}: lower clusters")
        if self.by == "gradients":
            return GradientStratified(clusters, self.size, self.every).bind(problem.population)
        strata = MAKERS[self.by](problem, clusters)
        return replace(self, strata=strata, by="split", clusters=None).bind(problem.population)

    def draw(self, state, key, population) -> Cohort:
        return draw_of_strata(key, self.order, self.starts, self.size, population)
