"""What every sampler is: a record that draws cohorts and may learn from feedback."""

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.problems.base import Population, Problem


class Sampler:
    """A rule for who takes part. A fixed design has no state; an adaptive one keeps its own, at the server only."""

    replacement: ClassVar[str] = "without"
    weights: ClassVar[str] = "lambda_i / p_i"

    learns_from_feedback: ClassVar[bool] = False
    """Whether feedback changes its draws."""

    consults_before_draw: ClassVar[bool] = False
    """Whether it consults clients before it draws."""

    feedback_kind: ClassVar[str] = "norm"
    """What it wants to know, before a draw or as feedback: the "norm" of a reply, or the "loss" at the parameters sent."""

    is_charged: ClassVar[bool] = True
    """Whether the ledger counts what it asks before it draws."""

    supports_availability: ClassVar[bool] = False
    """Whether it can draw from the clients available only."""

    def bind(self, population: Population) -> "Sampler":
        """Return this sampler fitted to `population`, or raise `UserError` where it does not fit."""
        return self

    def fit(self, problem: Problem) -> "Sampler":
        """Return this sampler fitted to `problem`; one that looks no further than the population writes `bind` alone."""
        return self.bind(problem.population)

    def for_rounds(self, rounds: int) -> "Sampler":
        """Return this sampler for a run of `rounds` rounds."""
        return self

    def refresh(self, state: Any, ask: Any, x: Any) -> Any:
        """Return the state after asking clients, before a round, what is wanted at the parameters x; it is charged."""
        return state

    def start(self, population: Population) -> Any:
        """Return the first state."""
        return None

    def draw(self, state: Any, key, population: Population) -> Cohort:
        """Select a cohort."""
        raise UserError(f"{type(self).__name__} has no draw(self, state, key, population): write one")

    def advance(self, state: Any, key) -> Any:
        """Return the state after a draw with `key`."""
        return state

    def observe(self, state: Any, cohort: Cohort, feedback: Float[Array, " m"]) -> Any:
        """Return the state after feedback >= 0, mostly |r_i|, about each of the cohort's active places."""
        return state

    def with_availability(self, state: Any, population: Population) -> Population:
        """Return the population with who is available in this state."""
        return population

    def consulted_cohort(self, state: Any, key, population: Population) -> Cohort:
        """Return the cohort to ask before a draw: everyone available, unless a subclass says otherwise."""
        return everyone_available(population)

    def observe_consulted(
        self, state: Any, values: Float[Array, " n"], answered: Bool[Array, " n"], population: Population
    ) -> Any:
        """Return the state once it is known what it `measures` of the coming exchange, of those who `answered`."""
        return state

    def expected_draws(self, state: Any, population: Population) -> Float[Array, " n"]:
        """Return the expected number of times that a draw picks each client: p_i, or K q_i with replacement."""
        raise UserError(f"{type(self).__name__} draws by no probabilities that metrics could judge: take another sampler")

    def variance(self, state: Any, population: Population, vectors: Float[Array, "n d"]) -> Float[Array, ""]:
        """Return E|sum_{i in S} expansion_i v_i - sum_i v_i|^2 for `vectors` v_i, given who is available."""
        raise UserError(f"{type(self).__name__} has no formula for the variance: take another sampler, or leave that metric out")


def everyone_available(population: Population) -> Cohort:
    """Return the cohort of all clients that are available."""
    ids = jnp.arange(population.count, dtype="int32")
    return Cohort.of(ids, 1.0, population, selection="arbitrary", active=population.available)


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


def fractions(values: Any, count: int, sampler: str, one: bool = False) -> np.ndarray:
    """Return `values` as numbers in (0, 1] for `count` clients, or with `one` as a single number for all if it is one."""
    p = array_of(values, sampler, "probability").astype(float)
    if p.shape != (count,) and not (one and p.shape == ()):
        wanted = f"1 or {count} probabilities" if one else f"{count} probabilities, one for each client"
        raise UserError(f"sampler {sampler!r} needs {wanted}, but got {p.size}")
    wrong = ~((p > 0) & (p <= 1))
    if np.any(wrong):
        raise UserError(f"sampler {sampler!r} needs probabilities in (0, 1], but one is {p[wrong][0]:g}")
    return p


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
