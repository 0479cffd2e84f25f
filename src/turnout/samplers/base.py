"""What every sampler is: a record that draws cohorts and may learn from feedback."""

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float

from turnout.cohort import Cohort
from turnout.errors import UserError
from turnout.problem import Population, Problem


class Sampler:
    """A rule for who takes part. A fixed design has no state; an adaptive one keeps its own, at the server only."""

    replacement: ClassVar[str] = "without"
    weights: ClassVar[str] = "lambda_i / p_i"

    def bind(self, population: Population) -> "Sampler":
        """Return this sampler fitted to `population`, or raise `UserError` where it does not fit."""
        return self

    def fit(self, problem: Problem) -> "Sampler":
        """Return this sampler fitted to `problem`; one that looks no further than the population writes `bind` alone."""
        return self.bind(problem.population)

    def refresh(self, state: Any, ask: Any, x: Any) -> Any:
        """Return the state after asking clients, before a round, what is wanted at the parameters x; it is charged."""
        return state

    def start(self, population: Population) -> Any:
        """Return the first state."""
        return None

    def draw(self, state: Any, key, population: Population) -> Cohort:
        """Select a cohort."""
        raise UserError(f"{type(self).__name__} has no draw(self, state, key, population): write one")

    def drawn(self, state: Any, key) -> Any:
        """Return the state after a draw with `key`."""
        return state

    def observe(self, state: Any, cohort: Cohort, feedback: Float[Array, " m"]) -> Any:
        """Return the state after feedback about each of the cohort's m places."""
        return state


def samplers_in(node: Any) -> list[Sampler]:
    """Return the samplers held by the record `node`, each before its own, in the order of their fields."""
    if not is_dataclass(node):
        return [node] if isinstance(node, Sampler) else []
    held = [sampler for field in fields(node) for sampler in samplers_in(getattr(node, field.name))]
    return [node, *held] if isinstance(node, Sampler) else held


def needs_at_most(size: float, population: Population, sampler: str) -> None:
    """Raise `UserError` where a cohort of `size` would not fit in the population."""
    if size > population.count:
        raise UserError(f"sampler {sampler!r} wants {size} clients, but there are {population.count}: lower size")


def array_of(values: Any, sampler: str, what: str) -> np.ndarray:
    """Return `values` as an array of numbers, or raise `UserError` where they are none."""
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.array(None)
    if not np.issubdtype(array.dtype, np.number):
        raise UserError(f"sampler {sampler!r} needs numbers as {what}")
    return array


def probabilities(values: Any, count: int, sampler: str, of: str) -> np.ndarray:
    """Return `values` as probabilities [count] that sum to one, None meaning equal ones; `of` says of what they are."""
    p = np.full(count, 1 / count) if values is None else array_of(values, sampler, "probability").astype(float)
    if p.shape != (count,):
        raise UserError(f"sampler {sampler!r} needs {count} probabilities, one for each {of}, but got {p.size}")
    if not np.all(p > 0):
        k = int(np.argmin(p > 0))
        raise UserError(f"sampler {sampler!r} needs probabilities above 0, but that of {of} {k} is {p[k]:g}")
    if not abs(p.sum() - 1) <= ROUNDING:
        raise UserError(f"sampler {sampler!r} needs probabilities that sum to 1, but they sum to {p.sum():.10g}")
    return p / p.sum()


ROUNDING = 1e-6
"""How far from one the sum of probabilities may be that were written as decimal fractions."""
