"""Base class of the designs that draw by probabilities, which are given or come from a rule."""

from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.samplers.base import SUM_TOLERANCE, Sampler, as_probabilities, check_size
from turnout.samplers.probabilities import Probability, Uniform


@record
class Weighted(Sampler):
    """Base class of the designs that draw K = `size` clients by a rule `probability`, or by given numbers [n].

    A subclass declares the fields `probability` (None: the uniform rule) and `size`, and writes `draw` and `variance`.
    """

    name: ClassVar[str] = "weighted"
    """The name in error messages and configurations."""

    probability: ClassVar[Any]
    size: ClassVar[Any]

    supports_availability = True

    @property
    def learns_from_feedback(self) -> bool:
        return isinstance(self.probability, Probability) and self.probability.learns_from_feedback

    @property
    def consults_before_draw(self) -> bool:
        return isinstance(self.probability, Probability) and self.probability.consults_before_draw

    @property
    def is_charged(self) -> bool:
        return not isinstance(self.probability, Probability) or self.probability.is_charged

    def bind(self, population):
        return self._bound(population, lambda rule: rule.bind(population))

    def fit(self, problem):
        return self._bound(problem.population, lambda rule: rule.fit(problem))

    def _bound(self, population, fit_rule):
        if self.size is not None:
            check_size(self.size, population, self.name)
        if self.probability is None:
            return replace(self, probability=Uniform())
        if isinstance(self.probability, Probability):
            return replace(self, probability=fit_rule(self.probability))
        return replace(self, probability=self.checked(self.probability, population))

    def checked(self, probability: Any, population) -> Float[np.ndarray, " n"]:
        """Return given inclusion probabilities as an array [n], in (0, 1] with sum K, or raise `UserError`.

        Args:
            probability: What the user gave.
            population: The clients, their weights, and who is available.
        """
        p = as_probabilities(probability, population.count, self.name)
        if not abs(p.sum() - self.size) <= SUM_TOLERANCE * p.size:
            raise UserError(f"sampler {self.name!r} needs probabilities that sum to size = {self.size:g}, not to {p.sum():.10g}")
        return p

    def for_rounds(self, rounds):
        if isinstance(self.probability, Probability):
            return replace(self, probability=self.probability.for_rounds(rounds))
        return self

    def warning(self, population):
        return self.probability.warning(self.size, population) if isinstance(self.probability, Probability) else None

    def start(self, population):
        return self.probability.start(population) if isinstance(self.probability, Probability) else None

    def refresh(self, state, ask, x):
        return self.probability.refresh(state, ask, x) if isinstance(self.probability, Probability) else state

    def expected_draws(self, state, population) -> Float[Array, " n"]:
        if isinstance(self.probability, Probability):
            return self.probability.inclusion_probabilities(state, self.size, population)
        p = jnp.broadcast_to(jnp.asarray(self.probability, jnp.result_type(float)), (population.count,))
        return jnp.where(population.present, p, 0)

    def observe(self, state, cohort, feedback):
        if not isinstance(self.probability, Probability):
            return state
        return self.probability.observe(state, cohort, cohort.share * feedback, self.size)

    def observe_consulted(self, state, values, answered, population):
        return self.probability.observe_consulted(state, values * population.shares, answered)

    def calibrated(self, state, ask, population, size=None):
        return self.probability.calibrated(state, ask, self.size if size is None else size, population)
