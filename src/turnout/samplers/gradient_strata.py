"""Strata that follow the clients' gradients during a run."""

from dataclasses import field, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, record, static
from turnout.samplers.base import Sampler
from turnout.samplers.clustering import optimal_strata
from turnout.samplers.full import Full
from turnout.samplers.strata import draw_of_strata, needs_strata, parts


@record
class GradientStratified(Sampler):
    """`Stratified` sampling with `optimal_strata` of lambda_i grad f_i(x) at the current x, made anew every `every` rounds.

    Before round 1, and every = R rounds later again, all clients are asked for their gradient, which is charged as a full pass.
    The state is the clients in the order of their strata, and where each stratum starts.
    """

    clusters: Count = static()
    size: Count | None = static(default=None)
    every: Count | None = None
    everyone: Full = field(default=Full(), repr=False)

    def bind(self, population):
        needs_strata(self.size, self.clusters)
        return replace(self, everyone=Full(size=self.size or self.clusters).bind(population))

    def start(self, population):
        # Any strata will do until the first gradients are in.
        numbers = np.arange(population.count) * self.clusters // population.count
        return jax.tree.map(jnp.asarray, parts(numbers))

    def refresh(self, state, ask, x):
        due = ask.round == 1 if self.every is None else (ask.round - 1) % self.every == 0
        return ask.cond(due, lambda _: self._strata(ask, x), lambda state: state, state)

    def _strata(self, ask, x):
        cohort = ask.draw(self.everyone)
        replies = ask(cohort, self.gradient, x)
        vectors = jax.vmap(lambda gradient: ravel_pytree(gradient)[0])(replies.values) * cohort.share[:, None]
        shapes = [((cohort.places,), "int32"), ((self.clusters + 1,), "int32")]
        shapes = tuple(jax.ShapeDtypeStruct(*shape) for shape in shapes)
        return jax.pure_callback(self._regroup, shapes, vectors, replies.answered, vmap_method="sequential")

    def _regroup(self, vectors, answered):
        vectors = np.asarray(vectors, float)
        # A gradient that was lost, or that a diverging run has made infinite, is no ground for any stratum.
        known = np.asarray(answered) & np.isfinite(vectors).all(1)
        middle = vectors[known].mean(0) if known.any() else 0.0
        return parts(optimal_strata(np.where(known[:, None], vectors, middle), self.clusters))

    @on_client
    def gradient(self, client, x):
        return Done(client.grad(x))

    def draw(self, state, key, population):
        return draw_of_strata(key, *state, self.size, population)
