"""Rules whose score of a client changes only by its own feedback: an index can hold their state for very many clients."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.core.tree import positive
from turnout.problems.base import Population
from turnout.samplers.probabilities.base import Probability


class Memory(NamedTuple):
    """What is remembered of each client [n], and the size G of feedback, 0 while unknown.

    A negative number stands for a client without feedback; its score is the absolute value times G.
    """

    own: Float[Array, " n"]
    unit: Float[Array, ""]


@record
class ByClient(Probability):
    """Base class: client i is remembered by one number, which only its own feedback changes, and has a score by that number.

    A subclass writes `first`, `learned` and `unit`, and `score` with its inverse `remembered` where the number is not the score.
    """

    learns_from_feedback = True

    def first(self, population: Population) -> Float[Array, " n"]:
        """Return the numbers of all clients before the first feedback.

        Args:
            population: The clients.
        """
        raise UserError(f"{type(self).__name__} has no first(self, population): write one")

    def unit(self, known: Float[Array, ""], cohort: Cohort, feedback: Float[Array, " m"]) -> Float[Array, ""]:
        """Return the size G of feedback after that of a cohort.

        Args:
            known: G so far, 0 while unknown.
            cohort: The cohort, `active` only where a client replied.
            feedback: pi_i of each place [m].
        """
        return known

    def learned(
        self, own: Float[Array, " m"], cohort: Cohort, feedback: Float[Array, " m"], unit: Float[Array, ""]
    ) -> Float[Array, " m"]:
        """Return the numbers of a cohort's clients after their feedback.

        Args:
            own: Their numbers before [m].
            cohort: The cohort.
            feedback: pi_i of each place [m].
            unit: G, with this feedback.
        """
        raise UserError(f"{type(self).__name__} has no learned(self, own, cohort, feedback, unit): write one")

    def score(self, own: Float[Array, "..."], size, count: int) -> Float[Array, "..."]:
        """Return the scores of clients with the numbers `own` >= 0.

        Args:
            own: Their numbers.
            size: K.
            count: n.
        """
        return own

    def remembered(self, score: Float[Array, "..."], size, count: int) -> Float[Array, "..."]:
        """Return the numbers of clients by their scores: the inverse of `score`.

        Args:
            score: Their scores.
            size: K.
            count: n.
        """
        return score

    def start(self, population: Population) -> Memory:
        return Memory(self.first(population), self.first_unit())

    def first_unit(self) -> Float[Array, ""]:
        """Return G before the first feedback, 0 if unknown."""
        return jnp.zeros((), jnp.result_type(float))

    def scores(self, state: Memory, size, population: Population) -> Float[Array, " n"]:
        own = state.own
        return jnp.where(jnp.signbit(own), -own * positive(state.unit), self.score(own, size, population.count))

    def observe(self, state: Memory, cohort: Cohort, feedback: Float[Array, " m"], size: Any) -> Memory:
        unit, count = self.unit(state.unit, cohort, feedback), state.own.size
        new = self.learned(state.own[cohort.ids], cohort, feedback, unit)
        return Memory(state.own.at[jnp.where(cohort.active, cohort.ids, count)].set(new, mode="drop"), unit)
