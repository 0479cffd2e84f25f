"""One client per round, drawn with given probabilities or by importance."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Fraction, record
from turnout.samplers.base import Sampler, as_distribution
from turnout.samplers.in_double import in_double


@record
class NonUniform(Sampler):
    """One client, S = {i} with probability p_i (Cohort Squeeze, Yi et al., 2024, appendix B.2).

    Args:
        probability: p [n], positive, with sum 1.

    Raises:
        UserError: On binding, if these are not n such numbers.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=4)
        >>> sampler = t.NonUniform([0.25, 0.25, 0.25, 0.25]).bind(population)
        >>> sampler.draw(None, jax.random.key(0), population).expansion.tolist()
        [4.0]
    """

    probability: list[Fraction] | np.ndarray

    def bind(self, population):
        return replace(self, probability=as_distribution(self.probability, population.count, "nonuniform", "client"))

    @in_double
    def draw(self, state, key, population):
        p = jnp.asarray(self.probability, float)
        i = jax.random.choice(key, population.count, (1,), p=p)
        return Cohort.of(i, p[i], population, selection="arbitrary")


@record
class Importance(Sampler):
    """One client with p_i = lambda_i mu_i / sum_j lambda_j mu_j, mu_i being the strong convexity of f_i; it maximises mu_AS.

    Fitting to a problem returns a `NonUniform`. Source: Cohort Squeeze (Yi et al., 2024), appendix B.2, there for equal lambda_i.

    Raises:
        UserError: On fitting, if the problem does not know its mu_i, or some lambda_i mu_i is not positive.

    Examples:
        >>> import turnout as t
        >>> sampler = t.Importance().fit(t.Quadratic.random(clients=5, dimension=3, seed=0))
        >>> type(sampler).__name__, len(sampler.probability)
        ('NonUniform', 5)
    """

    def bind(self, population):
        raise UserError("sampler 'importance' needs the mu_i of a problem: fit it to one")

    def fit(self, problem):
        constants = problem.constants()
        if constants is None:
            raise UserError(f"sampler 'importance' needs mu_i, which {type(problem).__name__} does not know: take 'nonuniform'")
        scores = constants.convexity * problem.population.lambdas
        if not np.all(scores > 0):
            i = int(np.argmin(scores > 0))
            raise UserError(f"sampler 'importance' needs lambda_i mu_i > 0, but that of client {i} is {scores[i]:g}: raise mu")
        return NonUniform(scores / scores.sum()).bind(problem.population)
