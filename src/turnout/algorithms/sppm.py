"""The stochastic proximal point method with arbitrary sampling."""

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.core.records import Count, NonNegative, Positive, record
from turnout.optimisers.schedules import Schedule, scheduled
from turnout.samplers import Sampler
from turnout.solvers import CohortSolver
from turnout.solvers.base import Asked, Proximal
from turnout.theory.bounds import tolerance

MOST = 10_000
"""Steps after which a solver that picks their number by itself gives up on its cohort."""


class Server(NamedTuple):
    """The parameters, the sum of the averaging weights so far, and what the solver keeps."""

    x: PyTree
    total: Float[Array, ""]
    memory: Any


@record
class Sppm(Algorithm):
    """x <- approximately prox_{gamma f_S}(x) = argmin_y f_S(y) + |y - x|^2 / (2 gamma), f_S = sum_{i in S} lambda_i f_i / p_i.

    SPPM-AS, Algorithm 1 of Cohort Squeeze. The prox is found by K = `inner` steps of `solver` with one cohort S, each an exchange
    or, with some solvers, more; `first` is K in the first round. `inner` = "auto" stops at a point y with
    |grad phi(y)|^2 <= b (mu + 1 / gamma)^2, so that |y - prox|^2 <= b, the inexactness of Lemma 13; b is what
    `theory.bounds.tolerance` gives for |x - x*|^2 <= `accuracy`.

    With a `schedule` gamma is its factor of the round times gamma. With `averaging` = p the new x is (1 - a) x + a y,
    a = (t + 1)^p / sum_{s <= t} (s + 1)^p: the mean of all y found so far, the later ones weighing more.
    """

    sampler: Sampler
    solver: CohortSolver
    gamma: Positive
    inner: Count | Literal["auto"] = 10
    first: Count | None = None
    accuracy: Positive | None = None
    schedule: Schedule | None = None
    averaging: NonNegative | None = None

    def bind(self, problem):
        if self.inner != "auto":
            return replace(self, accuracy=None)
        if self.accuracy is None:
            raise UserError("inner = 'auto' needs accuracy: give the squared distance |x - x*|^2 to aim at")
        if not self.solver.certifies:
            raise UserError(f"inner = 'auto' does not go with {type(self.solver).__name__}, which bounds no error: give a number")
        if not self.solver.convexity:
            raise UserError("inner = 'auto' needs a strongly convex problem, or the solver's convexity: give inner a number")
        return replace(self, inner=MOST)

    def client_state(self, x):
        return self.solver.client_state(x)

    def start(self, ask, x):
        centre = ravel_pytree(x)[0]
        return Server(x, jnp.zeros((), centre.dtype), self.solver.memory(centre))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        cohort = ask.draw(self.sampler, self.solver.gradient, server.x)
        centre, unravel = ravel_pytree(server.x)
        number = jnp.asarray(ask.round, centre.dtype)
        gamma = scheduled(self.gamma, self.schedule, ask.round)
        phi = Proximal(cohort, centre, jnp.asarray(1 / gamma, centre.dtype), unravel)
        y, state = self._prox(ask, phi, self.solver.start(phi, server.memory))
        total = server.total
        if self.averaging is not None:
            weight = number ** jnp.asarray(self.averaging)
            total = total + weight
            y = centre + weight / total * (y - centre)
        return Server(unravel(y), total, self.solver.keep(state))

    def _prox(self, ask, phi: Proximal, state) -> tuple[Float[Array, " d"], Any]:
        """Return the point that the solver finds, and its last state."""
        count = self.inner if self.first is None else jnp.where(ask.round == 1, self.first, self.inner)
        if self.accuracy is None:
            state = ask.loop(count, lambda state: self.solver.step(ask, phi, state).state, state)
            return self.solver.solution(state), state
        convexity, _ = self.solver.bounds(phi)
        small = tolerance(self.accuracy, 1 / phi.convexity, convexity - phi.convexity) * convexity**2
        asked = ask.loop(
            count,
            lambda asked: self.solver.step(ask, phi, asked.state),
            Asked(state, phi.centre, jnp.full_like(phi.centre, jnp.inf)),
            until=lambda asked: jnp.vdot(asked.gradient, asked.gradient) <= small,
        )
        return asked.y, asked.state
