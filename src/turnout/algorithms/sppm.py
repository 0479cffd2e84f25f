"""The stochastic proximal point method with arbitrary sampling."""

from dataclasses import field, replace
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
from turnout.solvers.base import Proximal, StepResult
from turnout.theory.bounds import Bound, contraction, neighbourhood, tolerance

MAX_STEPS = 10_000
"""Limit on the steps for one cohort with `inner` = "auto"."""


class SppmState(NamedTuple):
    """The parameters x, the sum of the averaging weights so far, and the memory of the solver."""

    x: PyTree
    weights: Float[Array, ""]
    memory: Any


@record
class Sppm(Algorithm):
    """SPPM-AS, the stochastic proximal point method with arbitrary sampling (Cohort Squeeze, Algorithm 1).

    x <- approximately prox_{gamma f_S}(x) = argmin_y f_S(y) + |y - x|^2 / (2 gamma), f_S = sum_{i in S} lambda_i f_i / p_i, by
    K = `inner` steps of `solver` with one cohort S, each an exchange or, with some solvers, more.

    Args:
        sampler: Draws the cohort S of each round.
        solver: Approximates the prox by exchanges with S.
        gamma: Step size of the proximal point.
        inner: K. "auto" stops at a point y with |grad phi(y)|^2 <= b (mu + 1 / gamma)^2, so that |y - prox|^2 <= b, the
            inexactness of Lemma 13; b is what `theory.bounds.tolerance` gives for |x - x*|^2 <= `accuracy`.
        first: K in the first round; None means `inner`.
        accuracy: Squared distance |x - x*|^2 to aim at with `inner` = "auto".
        schedule: Its factor of the round multiplies gamma.
        averaging: p; the new x is (1 - a) x + a y, a = (t + 1)^p / sum_{s <= t} (s + 1)^p: a mean of all y so far, later ones
            weighing more. None means the new x is y.

    Raises:
        UserError: If `inner` = "auto" lacks `accuracy`, a solver that bounds its error, or strong convexity.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(2), t.solvers.Bfgs(), gamma=1.0, inner=5), problem, rounds=10)
        >>> trace.ledger.totals()["exchanges"]
        50
    """

    sampler: Sampler
    solver: CohortSolver
    gamma: Positive
    inner: Count | Literal["auto"] = 10
    first: Count | None = field(default=None, kw_only=True)
    accuracy: Positive | None = field(default=None, kw_only=True)
    schedule: Schedule | None = field(default=None, kw_only=True)
    averaging: NonNegative | None = field(default=None, kw_only=True)

    cohorts_per_round = None

    def bind(self, problem):
        if self.inner != "auto":
            return replace(self, accuracy=None)
        if self.accuracy is None:
            raise UserError("inner = 'auto' needs accuracy: give the squared distance |x - x*|^2 to aim at")
        if not self.solver.certifies:
            name = type(self.solver).__name__
            raise UserError(f"inner = 'auto' does not go with {name}, which has no bound on its error: give a number")
        if not self.solver.convexity:
            raise UserError("inner = 'auto' needs a strongly convex problem, or the solver's convexity: give inner a number")
        return replace(self, inner=MAX_STEPS)

    def bounds(self, problem, constants):
        for name in ("schedule", "averaging"):
            if getattr(self, name) is not None:
                raise UserError(f"Theorem 1 is about a constant gamma without averaging: leave {name} out")
        if not constants.mu > 0:
            raise UserError("Theorem 1 needs mu_AS > 0, but a cohort of this sampler may be empty or weigh nothing")
        left = neighbourhood(self.gamma, constants.mu, constants.sigma2)
        return Bound(1, contraction(self.gamma, constants.mu), left, constants.distance2)

    def client_state(self, x):
        return self.solver.client_state(x)

    def start(self, ask, x):
        centre = ravel_pytree(x)[0]
        return SppmState(x, jnp.zeros((), centre.dtype), self.solver.memory(centre))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        cohort = ask.draw(self.sampler, self.solver.gradient, server.x)
        centre, unravel = ravel_pytree(server.x)
        number = jnp.asarray(ask.round, centre.dtype)
        gamma = scheduled(self.gamma, self.schedule, ask.round)
        phi = Proximal(cohort, centre, jnp.asarray(1 / gamma, centre.dtype), unravel)
        y, state = self._prox(ask, phi, self.solver.start(phi, server.memory))
        weights = server.weights
        if self.averaging is not None:
            weight = number ** jnp.asarray(self.averaging)
            weights = weights + weight
            y = centre + weight / weights * (y - centre)
        return SppmState(unravel(y), weights, self.solver.keep(state))

    def _prox(self, ask, phi: Proximal, state) -> tuple[Float[Array, " d"], Any]:
        """Return the point that the solver finds, and its last state."""
        count = self.inner if self.first is None else jnp.where(ask.round == 1, self.first, self.inner)
        if self.accuracy is None:
            state = ask.loop(count, lambda state: self.solver.step(ask, phi, state).state, state)
            return self.solver.solution(state), state
        convexity, _ = self.solver.bounds(phi)
        small = tolerance(self.accuracy, 1 / phi.convexity, convexity - phi.convexity) * convexity**2
        result = ask.loop(
            count,
            lambda result: self.solver.step(ask, phi, result.state),
            StepResult(state, phi.centre, jnp.full_like(phi.centre, jnp.inf)),
            until=lambda result: jnp.vdot(result.gradient, result.gradient) <= small,
        )
        return result.y, result.state
