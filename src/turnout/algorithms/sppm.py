"""The stochastic proximal point method with arbitrary sampling."""

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from turnout.exchange import Algorithm, Done, on_client
from turnout.records import Count, Positive, record
from turnout.samplers import Sampler
from turnout.solvers import CohortSolver


@record
class Sppm(Algorithm):
    """x <- approximately prox_{gamma f_S}(x) = argmin_y f_S(y) + |y - x|^2 / (2 gamma), f_S = sum_{i in S} lambda_i f_i / p_i.

    SPPM-AS, Algorithm 1 of Cohort Squeeze. The prox is found by K = `inner` exchanges with one cohort S: each sends a point
    y_k down and brings f_S(y_k) and its gradient up, from which `solver` makes y_{k+1}; x becomes y_K.
    """

    sampler: Sampler
    solver: CohortSolver
    gamma: Positive
    inner: Count = 10

    def round(self, ask, x):
        cohort = ask.draw(self.sampler)
        centre, unravel = ravel_pytree(x)

        def step(state):
            y = self.solver.query(state)
            value, gradient = ask(cohort, self.value_and_grad, unravel(y)).average()
            moved = (y - centre) / self.gamma
            value, gradient = value + jnp.vdot(moved, y - centre) / 2, ravel_pytree(gradient)[0] + moved
            return self.solver.update(state, value, gradient)

        state = self.solver.start(centre, convexity=1 / self.gamma)
        return unravel(self.solver.query(ask.loop(self.inner, step, state)))

    @on_client
    def value_and_grad(self, client, x):
        return Done(client.value_and_grad(x))
