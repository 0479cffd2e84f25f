"""One client from each stratum."""

from dataclasses import field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from turnout.cohort import Cohort
from turnout.errors import UserError
from turnout.records import record
from turnout.samplers.base import Sampler


@record
class Stratified(Sampler):
    """One uniform client from each stratum C_j: p_i = 1 / |C_j| (stratified sampling of Cohort Squeeze, section 2).

    `strata` [n] numbers each client's stratum from 0; None takes those of the split.
    """

    strata: list[int] | Any = None
    order: Any = field(default=None, repr=False)
    starts: Any = field(default=None, repr=False)

    def bind(self, population):
        strata = population.strata if self.strata is None else self.strata
        if strata is None:
            raise UserError("sampler 'stratified' needs strata: give them, or take a split that makes them (kind = 'kmeans')")
        strata = np.asarray(strata)
        if strata.shape != (population.count,):
            raise UserError(f"sampler 'stratified' needs {population.count} strata, one a client, but got {strata.size}")
        sizes = np.bincount(strata)
        if not np.all(sizes):
            raise UserError(f"sampler 'stratified': stratum {np.argmin(sizes)} has no clients")
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        return replace(self, strata=None, order=np.argsort(strata, kind="stable").astype(np.int32), starts=starts)

    def draw(self, state, key, population):
        starts = jnp.asarray(self.starts)
        sizes = jnp.diff(starts)
        picks = jax.random.randint(key, sizes.shape, 0, sizes, "int32")
        ids = jnp.asarray(self.order)[starts[:-1] + picks]
        return Cohort.of(ids, 1 / sizes.astype(float), population, selection="arbitrary")
