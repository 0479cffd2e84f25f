"""Rules that are tuned to the length of a run."""

from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.errors import UserError
from turnout.samplers.probabilities.base import Probability


class Planned(Probability):
    """A rule that learns for T = `rounds` rounds, by default those of the run; a subclass adds that field."""

    rounds: ClassVar[Any]

    learns_from_feedback = True

    def for_rounds(self, rounds):
        return replace(self, rounds=self.known_rounds(rounds))

    def known_rounds(self, default: int | None = None):
        """Return T, or raise `UserError` where neither it nor a `default` is known."""
        if self.rounds is None and default is None:
            raise UserError(f"probability {type(self).__name__} needs the number of rounds of the run: give rounds")
        return max(1, default) if self.rounds is None else self.rounds

    @property
    def horizon(self) -> Float[Array, ""]:
        """T as an array."""
        return jnp.asarray(self.known_rounds(), jnp.result_type(float))
