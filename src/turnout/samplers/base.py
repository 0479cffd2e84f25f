"""What every sampler is: a record that draws cohorts and may learn from feedback."""

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

from jaxtyping import Array, Float

from turnout.cohort import Cohort
from turnout.errors import UserError
from turnout.problem import Population


class Sampler:
    """A rule for who takes part. A fixed design has no state; an adaptive one keeps its own, at the server only."""

    replacement: ClassVar[str] = "without"
    weights: ClassVar[str] = "lambda_i / p_i"

    def bind(self, population: Population) -> "Sampler":
        """Return this sampler fitted to `population`, or raise `UserError` where it does not fit."""
        return self

    def start(self, population: Population) -> Any:
        """Return the first state."""
        return None

    def draw(self, state: Any, key, population: Population) -> Cohort:
        """Select a cohort."""
        raise UserError(f"{type(self).__name__} has no draw(self, state, key, population): write one")

    def observe(self, state: Any, cohort: Cohort, feedback: Float[Array, " m"]) -> Any:
        """Return the state after feedback about each of the cohort's m places."""
        return state


def samplers_in(node: Any) -> list[Sampler]:
    """Return the samplers held by the record `node`, in the order of their fields."""
    if isinstance(node, Sampler):
        return [node]
    if not is_dataclass(node):
        return []
    return [sampler for field in fields(node) for sampler in samplers_in(getattr(node, field.name))]


def needs_at_most(size: float, population: Population, sampler: str) -> None:
    """Raise `UserError` where a cohort of `size` would not fit in the population."""
    if size > population.count:
        raise UserError(f"sampler {sampler!r} wants {size} clients, but there are {population.count}: lower size")
