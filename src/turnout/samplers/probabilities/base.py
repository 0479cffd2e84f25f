"""What every rule is that says how likely each client is to be drawn."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.problems.base import Population, Problem
from turnout.samplers.probabilities.waterfilling import blended, capped, mixed, normalised


@record
class Probability:
    """Scores a_i >= 0 for all clients, which a design turns into the best probabilities that it can draw with.

    Designs that draw a client at most once take p_i = min(1, a_i / nu), sum p = K; those that draw with replacement
    q_i = a_i / sum_j a_j. Either is mixed with the uniform one by a weight `theta`, before the cap or after it.
    """

    learns_from_feedback: ClassVar[bool] = False
    """Whether feedback changes the scores."""

    consults_before_draw: ClassVar[bool] = False
    """Whether the norms of all clients' replies are wanted before a draw."""

    is_charged: ClassVar[bool] = True
    """Whether the ledger counts what it asks before a draw."""

    mixes_before_cap: ClassVar[bool] = False
    """Whether the scores are mixed with their mean, and then capped, rather than the other way round."""

    def fit(self, problem: Problem) -> "Probability":
        """Return this rule fitted to `problem`; one that looks no further than the population writes `bind` alone."""
        return self.bind(problem.population)

    def bind(self, population: Population) -> "Probability":
        """Return this rule fitted to `population`, or raise `UserError` where it does not fit."""
        return self

    def for_rounds(self, rounds: int) -> "Probability":
        """Return this rule for a run of `rounds` rounds."""
        return self

    def start(self, population: Population) -> Any:
        """Return the first state."""
        return None

    def scores(self, state: Any, size, population: Population) -> Float[Array, " n"]:
        """Return a_i >= 0 for draws of `size` = K."""
        raise UserError(f"{type(self).__name__} has no scores(self, state, size, population): write one")

    def theta(self, size, population: Population) -> Float[Array, ""]:
        """Return the weight of the uniform distribution."""
        return jnp.zeros((), jnp.result_type(float))

    def refresh(self, state: Any, ask: Any, x: Any) -> Any:
        """Return the state before a round that starts at the parameters x."""
        return state

    def observe(self, state: Any, cohort: Cohort, feedback: Float[Array, " m"], size) -> Any:
        """Return the state after feedback pi_i = lambda_i |r_i| about the cohort's active places."""
        return state

    def observe_consulted(self, state: Any, norms: Float[Array, " n"], answered: Bool[Array, " n"]) -> Any:
        """Return the state before a draw that knows pi_i = `norms` of all clients who `answered`."""
        return state

    def inclusion_probabilities(self, state: Any, size, population: Population) -> Float[Array, " n"]:
        """Return p_i <= 1 with sum p = K."""
        size = jnp.asarray(size, jnp.result_type(float))
        scores, theta = self.scores(state, size, population), self.theta(size, population)
        if self.mixes_before_cap:
            return capped(mixed(scores, theta, population.available), size, population.available)
        return blended(capped(scores, size, population.available), theta, population.available)

    def draw_probabilities(self, state: Any, size, population: Population) -> Float[Array, " n"]:
        """Return q_i with sum q = 1, for each of K draws with replacement."""
        size = jnp.asarray(size, jnp.result_type(float))
        scores = self.scores(state, size, population)
        return blended(normalised(scores, population.available), self.theta(size, population), population.available)
