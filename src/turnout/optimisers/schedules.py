"""Schedules: factors of a step size that depend on the round.

Their numbers are traced, so a sweep over them compiles once; schedules of optax would compile for each number. To write a
schedule of your own, extend `Schedule` and write `factor(t)`, plain JAX code of the round t = 0, 1, ... (a float).
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.errors import UserError
from turnout.core.records import Fraction, Positive, Share, record


class Schedule(ABC):
    """Base class: the factor of the step size in round t = 0, 1, ...

    Examples:
        >>> import turnout as t
        >>> from turnout.optimisers.schedules import Schedule
        >>> @t.record
        ... class Linear(Schedule):
        ...     rounds: float
        ...
        ...     def factor(self, t):
        ...         return 1 - t / self.rounds
        >>> algorithm = t.FedAvg(t.Nice(2), lr=0.1, steps=1, schedule=Linear(10.0))
        >>> t.run(algorithm, t.Quadratic.random(clients=4, dimension=3, seed=0), rounds=5).ledger.totals()["exchanges"]
        5
    """

    example = "t.schedules.Exponential(0.9)"

    @abstractmethod
    def factor(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """Return the factor in round t."""

    def for_rounds(self, rounds: int) -> Any:
        """Return this schedule fitted to a run of `rounds` rounds."""
        return self


@record
class Inverse(Schedule):
    """1 / (1 + t / T).

    Args:
        rounds: T, after which the factor is one half.

    Examples:
        >>> import jax.numpy as jnp
        >>> from turnout.optimisers import schedules
        >>> float(schedules.Inverse(4.0).factor(jnp.asarray(4.0)))
        0.5
    """

    rounds: Positive

    def factor(self, t):
        return 1 / (1 + t / self.rounds)


@record
class Exponential(Schedule):
    """rate^(t / T).

    Args:
        rate: The factor after T rounds, in (0, 1].
        rounds: T.

    Examples:
        >>> import jax.numpy as jnp
        >>> from turnout.optimisers import schedules
        >>> float(schedules.Exponential(0.25, rounds=4.0).factor(jnp.asarray(2.0)))
        0.5
    """

    rate: Fraction
    rounds: Positive = 1.0

    def factor(self, t):
        return jnp.asarray(self.rate, t.dtype) ** (t / self.rounds)


@record
class Step(Schedule):
    """rate^floor(t / T).

    Args:
        rate: The factor of each drop, in (0, 1].
        rounds: T, the rounds between drops.

    Examples:
        >>> import jax.numpy as jnp
        >>> from turnout.optimisers import schedules
        >>> float(schedules.Step(0.5, rounds=10.0).factor(jnp.asarray(25.0)))
        0.25
    """

    rate: Fraction
    rounds: Positive

    def factor(self, t):
        return jnp.asarray(self.rate, t.dtype) ** jnp.floor(t / self.rounds)


@record
class Cosine(Schedule):
    """floor + (1 - floor) (1 + cos(pi min(t / T, 1))) / 2 (Loshchilov and Hutter, 2017, equation (5), without restarts).

    Args:
        rounds: T; None takes the rounds of the run.
        floor: The last factor, in [0, 1].

    Examples:
        >>> import jax.numpy as jnp
        >>> from turnout.optimisers import schedules
        >>> float(schedules.Cosine(10.0).factor(jnp.asarray(0.0)))
        1.0
    """

    rounds: Positive | None = None
    floor: Share = 0.0

    def for_rounds(self, rounds):
        return self if self.rounds is not None else replace(self, rounds=float(max(rounds, 1)))

    def factor(self, t):
        if self.rounds is None:
            raise UserError("a cosine schedule needs its rounds: give rounds, or use it in a run")
        return self.floor + (1 - self.floor) * (1 + jnp.cos(jnp.pi * jnp.minimum(t / self.rounds, 1))) / 2


@record
class WarmUp(Schedule):
    """min((t + 1) / T, 1) in the first T rounds; after that the factor of another schedule that starts there, or 1.

    Args:
        rounds: T.
        schedule: The schedule after the warm-up; None keeps the factor 1.

    Examples:
        >>> import jax.numpy as jnp
        >>> from turnout.optimisers import schedules
        >>> float(schedules.WarmUp(4.0).factor(jnp.asarray(1.0)))
        0.5
    """

    rounds: Positive
    schedule: Schedule | None = None

    def for_rounds(self, rounds):
        return self if self.schedule is None else replace(self, schedule=self.schedule.for_rounds(rounds - int(self.rounds)))

    def factor(self, t):
        after = jnp.maximum(t - self.rounds, 0)
        factor = jnp.ones_like(t) if self.schedule is None else self.schedule.factor(after)
        return jnp.where(t < self.rounds, jnp.minimum((t + 1) / self.rounds, 1), factor)


def scheduled(step, schedule: Schedule | None, round) -> Any:
    """Return `step` times the factor of round `round` = 1, 2, ..., or `step` itself without a schedule.

    Args:
        step: Step size before the schedule.
        schedule: The schedule; None for a constant step.
        round: Number of the round, from 1.

    Examples:
        >>> import turnout as t
        >>> float(t.schedules.scheduled(0.1, None, 3))
        0.1
    """
    if schedule is None:
        return step
    dtype = jnp.result_type(float)
    return jnp.asarray(step, dtype) * schedule.factor(jnp.asarray(round, dtype) - 1)
