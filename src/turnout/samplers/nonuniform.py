"""One client, some more often than others."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Fraction, record
from turnout.samplers.base import Sampler, probabilities


@record
class NonUniform(Sampler):
    """S = {i} with probability p_i = `probability` [n] (nonuniform sampling of Cohort Squeeze, appendix B.2)."""

    probability: list[Fraction] | np.ndarray

    def bind(self, population):
        return replace(self, probability=probabilities(self.probability, population.count, "nonuniform", "client"))

    def draw(self, state, key, population):
        p = jnp.asarray(self.probability)
        i = jax.random.choice(key, population.count, (1,), p=p)
        return Cohort.of(i, p[i], population, selection="arbitrary")


@record
class Importance(Sampler):
    """`NonUniform` with p_i proportional to lambda_i mu_i, mu_i the strong convexity of f_i, which maximises mu_AS
    (importance sampling of Cohort Squeeze, appendix B.2, there with equal lambda_i)."""

    def bind(self, population):
        raise UserError("sampler 'importance' needs the mu_i of a problem: fit it to one")

    def fit(self, problem):
        constants, n = problem.constants(), problem.clients
        if constants is None:
            raise UserError(f"sampler 'importance' needs mu_i, which {type(problem).__name__} does not know: take 'nonuniform'")
        weights = problem.population.weights
        scores = constants.convexity * (np.full(n, 1 / n) if weights is None else np.asarray(weights))
        if not np.all(scores > 0):
            i = int(np.argmin(scores > 0))
            raise UserError(f"sampler 'importance' needs lambda_i mu_i > 0, but that of client {i} is {scores[i]:g}: raise mu")
        return NonUniform(scores / scores.sum()).bind(problem.population)
