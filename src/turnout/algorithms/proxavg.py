"""Federated averaging of the clients' own proximal points."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from turnout.algorithms.descent import add
from turnout.exchange import Algorithm, Done, on_client
from turnout.records import Count, Positive, record, static
from turnout.samplers import Sampler

MOST = 1000
"""Queries after which a client gives up on its prox and returns the best point so far."""


@record
class FedProxSppm(Algorithm):
    """x <- mean of prox_{gamma f_i}(x) over the cohort, `inner` times with one cohort.

    FedProx-SPPM-AS, Algorithm 2 of Cohort Squeeze. Each client finds its prox by BFGS (optimistix) until its steps and
    changes are below `tolerance`. The mean weighs clients by lambda_i, the paper's 1 / |S| where all are equal.
    """

    sampler: Sampler
    gamma: Positive
    inner: Count = 1
    tolerance: Positive = static(default=1e-8)

    def round(self, ask, x):
        cohort = ask.draw(self.sampler, self.prox, x)

        def step(y):
            replies = ask(cohort, self.prox, y)
            ask.observe(replies)
            return add(y, replies.mean())

        return ask.loop(self.inner, step, x)

    @on_client
    def prox(self, client, x):
        """prox_{gamma f_i}(x) - x."""
        return proximal_change(client, x, self.gamma, self.tolerance)


@record
class FedAvgSppm(Algorithm):
    """y <- mean of prox_{alpha f~_i}(y) over the cohort, f~_i = f_i + |. - x|^2 / (2 gamma), `inner` times from y = x.

    FedAvg-SPPM-AS, Algorithm 3 of Cohort Squeeze with the quadratics of its text, not of its appendix:
    prox_{alpha f~_i}(y) = prox_{eta f_i}((alpha x + gamma y) / (alpha + gamma)), eta = alpha gamma / (alpha + gamma). The server
    sends that centre, so that one vector goes down in each exchange. Clients solve and are weighed as in `FedProxSppm`.
    """

    sampler: Sampler
    gamma: Positive
    alpha: Positive
    inner: Count = 1
    tolerance: Positive = static(default=1e-8)

    def round(self, ask, x):
        cohort = ask.draw(self.sampler, self.prox, x)
        share = self.alpha / (self.alpha + self.gamma)

        def step(y):
            centre = jax.tree.map(lambda x, y: share * x + (1 - share) * y, x, y)
            replies = ask(cohort, self.prox, centre)
            ask.observe(replies)
            return add(centre, replies.mean())

        return ask.loop(self.inner, step, x)

    @on_client
    def prox(self, client, centre):
        """prox_{eta f_i}(centre) - centre."""
        eta = self.alpha * self.gamma / (self.alpha + self.gamma)
        return proximal_change(client, centre, eta, self.tolerance)


def proximal_change(client, centre, gamma, tolerance: float) -> Done:
    """Reply with prox_{gamma f_i}(centre) - centre."""
    # Slow to import.
    import optimistix

    start, unravel = ravel_pytree(centre)

    def value_and_grad(y):
        value, gradient = client.value_and_grad(unravel(y))
        moved = (y - start) / gamma
        return value + jnp.vdot(moved, y - start) / 2, ravel_pytree(gradient)[0] + moved

    # The library differentiates for itself, which a client's oracle does not allow; this hands it the oracle's gradient.
    @jax.custom_vjp
    def value(y):
        return value_and_grad(y)[0]

    value.defvjp(value_and_grad, lambda gradient, cotangent: (cotangent * gradient,))
    solver = optimistix.BFGS(rtol=tolerance, atol=tolerance)
    found = optimistix.minimise(lambda y, _: value(y), solver, start, max_steps=MOST, throw=False)
    return Done(unravel(found.value - start), queries=found.stats["num_steps"])
