"""How a step changes from round to round: factors of it, evaluated at the round's number inside the run.

The schedules of optax want their numbers known before they are compiled, so that each would be a program of its own.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.errors import UserError
from turnout.core.records import Fraction, Positive, Share, record


class Schedule(ABC):
    """A factor of a step in round t = 0, 1, ...; its numbers are leaves, so that new ones do not recompile."""

    example = "t.schedules.Exponential(0.9)"

    @abstractmethod
    def factor(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """Return the factor in round t."""

    def for_rounds(self, rounds: int) -> Any:
        """Return this schedule fitted to a run of so many rounds."""
        return self


@record
class Inverse(Schedule):
    """1 / (1 + t / `rounds`): half after `rounds` rounds."""

    rounds: Positive

    def factor(self, t):
        return 1 / (1 + t / self.rounds)


@record
class Exponential(Schedule):
    """`rate`^(t / `rounds`)."""

    rate: Fraction
    rounds: Positive = 1.0

    def factor(self, t):
        return jnp.asarray(self.rate, t.dtype) ** (t / self.rounds)


@record
class Step(Schedule):
    """`rate`^floor(t / `rounds`)."""

    rate: Fraction
    rounds: Positive

    def factor(self, t):
        return jnp.asarray(self.rate, t.dtype) ** jnp.floor(t / self.rounds)


@record
class Cosine(Schedule):
    """`floor` + (1 - `floor`) (1 + cos(pi min(t / `rounds`, 1))) / 2, by default over all rounds of the run.

    Loshchilov and Hutter (2017), eq. 5, without restarts.
    """

    rounds: Positive | None = None
    floor: Share = 0.0

    def for_rounds(self, rounds):
        return self if self.rounds is not None else replace(self, rounds=float(max(rounds, 1)))

    def factor(self, t):
        if self.rounds is None:
            raise UserError("a cosine needs its rounds: give them, or let a run fit it to its own")
        return self.floor + (1 - self.floor) * (1 + jnp.cos(jnp.pi * jnp.minimum(t / self.rounds, 1))) / 2


@record
class WarmUp(Schedule):
    """min((t + 1) / `rounds`, 1) in the first `rounds` rounds; then the factor of `schedule`, counting from there, or 1."""

    rounds: Positive
    schedule: Schedule | None = None

    def for_rounds(self, rounds):
        return self if self.schedule is None else replace(self, schedule=self.schedule.for_rounds(rounds - int(self.rounds)))

    def factor(self, t):
        after = jnp.maximum(t - self.rounds, 0)
        then = jnp.ones_like(t) if self.schedule is None else self.schedule.factor(after)
        return jnp.where(t < self.rounds, jnp.minimum((t + 1) / self.rounds, 1), then)


def scheduled(step, schedule: Schedule | None, round) -> Any:
    """Return `step` as it is in the round with this number, 1 for the first; `step` itself without a schedule."""
    if schedule is None:
        return step
    dtype = jnp.result_type(float)
    return jnp.asarray(step, dtype) * schedule.factor(jnp.asarray(round, dtype) - 1)
