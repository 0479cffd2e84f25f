"""The cohorts that one round has drawn."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.samplers.base import Sampler, samplers_in


class Draw(NamedTuple):
    """A cohort, the number of the sampler that drew it, and the state of this sampler before the draw.

    Args:
        cohort: The cohort.
        number: Number of the sampler that drew it.
        state: State of this sampler before the draw.
    """

    cohort: Cohort
    number: int
    state: PyTree


class Draws:
    """The cohorts that a round of `algorithm` has drawn so far, in the loop or branch at hand and outside of it."""

    def __init__(self, algorithm):
        self.algorithm, self.samplers = algorithm, samplers_in(algorithm)
        self._draws: list[Draw] = []

    def __len__(self) -> int:
        return len(self._draws)

    def __getitem__(self, place: int) -> Draw:
        return self._draws[place]

    def number(self, sampler: Sampler) -> int:
        """Return the place of `sampler` among those of the algorithm."""
        for number, candidate in enumerate(self.samplers):
            if candidate is sampler:
                return number
        raise UserError(
            f"sampler {type(sampler).__name__} is not a field of {type(self.algorithm.addressed).__name__}: make it one"
        )

    def add(self, draw: Draw) -> None:
        """Add a draw."""
        self._draws.append(draw)

    def cut(self, count: int) -> None:
        """Forget all draws after the first `count`: cohorts do not leave the loop or branch that drew them."""
        del self._draws[count:]

    def place(self, cohort: Cohort) -> int | None:
        """Return the place of the draw that `cohort`, or the whole that it is a part of, came from; None if from elsewhere."""
        return next((k for k, draw in enumerate(self._draws) if draw.cohort.ids is cohort.ids), None)

    def sampler(self, cohort: Cohort) -> Sampler | None:
        """Return the sampler that drew `cohort`; None if none did in this round."""
        place = self.place(cohort)
        return None if place is None else self.samplers[self[place].number]

    def learns_losses(self, cohort: Cohort) -> bool:
        """Whether the sampler that drew `cohort` learns from losses."""
        sampler = self.sampler(cohort)
        return sampler is not None and sampler.learns_from_feedback and sampler.feedback_kind == "loss"


def first_time(asked: tuple, place: int | None, cohort: Cohort) -> tuple:
    """Return 1 if `cohort` was not `asked` since it was drawn, else 0, and the flags after this exchange.

    A cohort from elsewhere counts as asked before. A part of a cohort that has no client is not asked, so the cohort stays fresh.

    Args:
        asked: Flag of each draw, 1 if its cohort was asked.
        place: Place of the draw; None if the cohort was not drawn in this round.
        cohort: The cohort.
    """
    if place is None:
        return jnp.zeros((), "int32"), asked
    fresh = 1 - asked[place]
    now = jnp.where(cohort.size > 0, 1, asked[place]).astype("int32")
    return fresh, (*asked[:place], now, *asked[place + 1 :])
