"""DELTA: probabilities from how far a client's gradient is from that of all, and how noisy it is."""

from dataclasses import field, replace

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, NonNegative, Share, record, static
from turnout.core.tree import add, positive
from turnout.samplers.full import Full
from turnout.samplers.probabilities.base import Probability


@record
class Delta(Probability):
    """a_i = lambda_i sqrt(alpha_1 zeta_i^2 + alpha_2 sigma_i^2), mixed with their mean, then capped (DELTA, Wang et al., 2023).

    zeta_i = |grad f_i(x) - grad f(x)|, and sigma_i^2 = |g_i - grad f_i(x)|^2 with g_i a gradient of `batch` random rows, or 0.
    All clients, available or not, are asked for both, which is charged, before round 1 and then every `every` rounds. A client
    whose answer is lost has lambda_i times the mean root of the others. Before the answers a_i = lambda_i.

    Mixing keeps p_i >= theta K / n also where a gradient is that of all, so that averages are unbiased: without it, such a client
    is never drawn.

    Args:
        diversity: alpha_1 >= 0.
        noise: alpha_2 >= 0.
        batch: Rows of g_i; None for exact gradients.
        mixing: theta in [0, 1], the weight of the mean score.
        every: Rounds between questions.
        everyone: Set by `bind`: the sampler of the full pass.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
        >>> trace = t.run(t.MbGd(t.Independent(t.Delta(every=3), size=2.0), lr=0.01), problem, rounds=4)
        >>> trace.ledger.totals()["contacts"] >= 12  # all are asked before rounds 1 and 4
        True
    """

    diversity: NonNegative = 0.5
    noise: NonNegative = 0.5
    batch: Count | None = static(default=None)
    mixing: Share = 0.05
    every: Count = 1
    everyone: Full = field(default=Full(), repr=False, kw_only=True)

    mixes_before_cap = True

    def bind(self, population):
        return replace(self, everyone=Full().bind(population))

    def start(self, population):
        return population.shares

    def theta(self, size, population):
        return jnp.asarray(self.mixing, jnp.result_type(float))

    def scores(self, state, size, population):
        return state

    def refresh(self, state, ask, x):
        due = (ask.round - 1) % self.every == 0
        return ask.cond(due, lambda _: self._asked(ask, x).astype(state.dtype), lambda state: state, state)

    def _asked(self, ask, x):
        cohort = ask.draw(self.everyone)
        replies = ask(cohort, self.report, x)
        gradients, noise = replies.values
        gradients = jax.vmap(lambda gradient: ravel_pytree(gradient)[0])(gradients)
        usable = replies.answered & jnp.all(jnp.isfinite(gradients), axis=1) & jnp.isfinite(noise)
        weights = jnp.where(usable, cohort.share, 0)
        weights = weights / positive(jnp.sum(weights))
        known = jnp.where(usable[:, None], gradients, 0)
        zeta = jnp.sum((known - (weights @ known)[None]) ** 2, axis=1)
        one, two = (jnp.asarray(a, zeta.dtype) for a in (self.diversity, self.noise))
        roots = jnp.sqrt(jnp.where(usable, one * zeta + two * jnp.where(usable, noise, 0), 0))
        roots = jnp.where(usable, roots, weights @ roots)
        # Clients that are all alike are drawn by their weights.
        return cohort.share * jnp.where(jnp.any(roots > 0), roots, 1)

    @on_client
    def report(self, client, x):
        gradient = client.grad(x)
        if self.batch is None:
            return Done((gradient, jnp.zeros(())))
        rows = client.batch(client.key, self.batch).grad(x)
        return Done((gradient, jnp.sum(ravel_pytree(add(rows, gradient, -1.0))[0] ** 2)), queries=2)
