"""The protocol of probability rules. Read this file to write a rule of your own; any weighted design then draws by it.

A rule is a record that gives every client a score a_i >= 0. The design turns scores into the probabilities that minimise
sum_i a_i^2 / p_i among those it can draw with. Only `scores` is required; a rule that learns also writes `start` and `observe`.
The feedback is pi_i = lambda_i |r_i|, the norm of client i's reply times its weight in the objective. The optimal scores are
the pi_i of the coming exchange.

Examples:
    >>> import jax.numpy as jnp, turnout as t
    >>> from turnout.samplers.probabilities import Probability
    >>> @t.record
    ... class MaxNorm(Probability):
    ...     learns_from_feedback = True
    ...
    ...     def start(self, population):
    ...         return jnp.ones(population.count)
    ...
    ...     def scores(self, state, size, population):
    ...         return state
    ...
    ...     def observe(self, state, cohort, feedback, size):
    ...         return state.at[cohort.ids].max(jnp.where(cohort.active, feedback, 0))
    >>> algorithm = t.MbGd(t.Independent(MaxNorm(), size=2.0), lr=0.01)
    >>> t.run(algorithm, t.Quadratic.random(clients=6, dimension=3, seed=0), rounds=5).ledger.totals()["draws_arbitrary"]
    5
"""

from dataclasses import replace
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
    """Base class of rules: scores a_i >= 0, which a design turns into probabilities.

    Designs that draw a client at most once take p_i = min(1, a_i / nu) with sum p = K, the others q_i = a_i / sum_j a_j. Both
    are mixed with the uniform distribution by a weight `theta`, before or after the cap.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> @t.record
        ... class ByNumber(t.Probability):
        ...     def scores(self, state, size, population):
        ...         return jnp.arange(1.0, population.count + 1)
        >>> problem = t.Quadratic.random(clients=4, dimension=3, seed=0)
        >>> sampler = t.Independent(size=2.0, probability=ByNumber())
        >>> t.run(t.MbGd(sampler, lr=0.01), problem, rounds=3).ledger.totals()["exchanges"]
        3
    """

    learns_from_feedback: ClassVar[bool] = False
    """Whether feedback changes the scores: the design calls `observe`."""

    consults_before_draw: ClassVar[bool] = False
    """Whether all available clients report pi_i before the draw: the design calls `observe_consulted`."""

    is_charged: ClassVar[bool] = True
    """Whether the ledger counts these reports; False makes the rule an oracle."""

    mixes_before_cap: ClassVar[bool] = False
    """Whether the scores are mixed with their mean before the cap, instead of p with K / n after it."""

    def fit(self, problem: Problem) -> "Probability":
        """Return this rule fitted to `problem`. A rule that needs the population only overrides `bind` instead."""
        return self.bind(problem.population)

    def bind(self, population: Population) -> "Probability":
        """Return this rule fitted to `population`, or raise `UserError` if it does not fit."""
        return self

    def for_rounds(self, rounds: int) -> "Probability":
        """Return this rule tuned to a run of `rounds` rounds."""
        return self

    def start(self, population: Population) -> Any:
        """Return the first state, a pytree of arrays."""
        return None

    def warning(self, size, population: Population) -> str | None:
        """Return what a user should know before a run with draws of K = `size` clients, in one sentence; None for nothing.

        Args:
            size: K, the number of clients in a cohort.
            population: The clients, their weights, and who is available.
        """
        return None

    def refresh(self, state: Any, ask: Any, x: Any) -> Any:
        """Return the state at the start of a round with parameters `x`.

        Args:
            state: State of the rule.
            ask: Access to the clients.
            x: Parameters of the server.
        """
        return state

    def scores(self, state: Any, size, population: Population) -> Float[Array, " n"]:
        """Return a_i >= 0 for draws of K = `size` clients.

        Args:
            state: State of the rule.
            size: K, the number of clients in a cohort.
            population: The clients, their weights, and who is available.
        """
        raise UserError(f"{type(self).__name__} has no scores(self, state, size, population): write one")

    def theta(self, size, population: Population) -> Float[Array, ""]:
        """Return the weight of the uniform distribution, in [0, 1].

        Args:
            size: K, the number of clients in a cohort.
            population: The clients, their weights, and who is available.
        """
        return jnp.zeros((), jnp.result_type(float))

    def observe_consulted(self, state: Any, norms: Float[Array, " n"], answered: Bool[Array, " n"]) -> Any:
        """Return the state before a draw, given pi_i = `norms` of the clients that `answered`, 0 for the others.

        Args:
            state: State of the rule.
            norms: pi_i [n], 0 for clients that did not answer.
            answered: Which clients answered [n].
        """
        return state

    def calibrated(self, state: Any, ask: Any, size, population: Population) -> Any:
        """Return the state after further exchanges before a draw of K = `size` clients.

        Args:
            state: State of the rule, after `observe_consulted`.
            ask: Access to the clients.
            size: K, the number of clients in a cohort.
            population: The clients, their weights, and who is available.
        """
        return state

    def observe(self, state: Any, cohort: Cohort, feedback: Float[Array, " m"], size) -> Any:
        """Return the state after feedback pi_i at the active places of `cohort`, which was drawn for K = `size`.

        Args:
            state: State of the rule.
            cohort: The cohort, `active` only where a client replied.
            feedback: pi_i of each place of the cohort [m].
            size: K, the number of clients in a cohort.
        """
        return state

    def inclusion_probabilities(self, state: Any, size, population: Population) -> Float[Array, " n"]:
        """Return p_i <= 1 with sum p = K = `size`, for designs that draw a client at most once.

        Args:
            state: State of the rule.
            size: K, the number of clients in a cohort.
            population: The clients, their weights, and who is available.
        """
        size = jnp.asarray(size, jnp.result_type(float))
        scores, theta = self.scores(state, size, population), self.theta(size, population)
        if self.mixes_before_cap:
            return capped(mixed(scores, theta, population.available), size, population.available)
        return blended(capped(scores, size, population.available), theta, population.available)

    def draw_probabilities(self, state: Any, size, population: Population) -> Float[Array, " n"]:
        """Return q_i with sum q = 1, for each of K = `size` draws.

        Args:
            state: State of the rule.
            size: K, the number of clients in a cohort.
            population: The clients, their weights, and who is available.
        """
        size = jnp.asarray(size, jnp.result_type(float))
        scores = self.scores(state, size, population)
        return blended(normalised(scores, population.available), self.theta(size, population), population.available)


class HorizonRule(Probability):
    """Base class of learning rules with constants that depend on the number T of rounds, the field `rounds` of a subclass."""

    rounds: ClassVar[Any]

    learns_from_feedback = True

    def for_rounds(self, rounds):
        return replace(self, rounds=self.known_rounds(rounds))

    def known_rounds(self, default: int | None = None):
        """Return T, or `default` if it is not given; raise `UserError` without either."""
        if self.rounds is None and default is None:
            raise UserError(f"probability {type(self).__name__} needs the number of rounds of the run: give rounds")
        return max(1, default) if self.rounds is None else self.rounds

    @property
    def horizon(self) -> Float[Array, ""]:
        """T as an array."""
        return jnp.asarray(self.known_rounds(), jnp.result_type(float))
