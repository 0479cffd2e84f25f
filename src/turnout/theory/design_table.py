"""Sampling designs side by side on the same clients: table 4 of Cohort Squeeze."""

import numpy as np
from jaxtyping import Float, Int

from turnout.problems.base import Population
from turnout.samplers import Block, Full, Nice, NonUniform, Sampler, Stratified
from turnout.theory.designs import Staged, convexity, design, inclusion, stratified_bound, variance


def table_4(
    sampler: Sampler, population: Population, mu: Float[np.ndarray, " n"], gradients: Float[np.ndarray, "n d"]
) -> dict[str, dict[str, float]]:
    """Return `clients`, `mu_as` and `sigma2_as` of each design, and `lemma_1` >= sigma^2_AS of stratified sampling.

    The designs have as many clients as `sampler` in expectation where they leave a choice, and its strata or those of the split
    where there are some. `clients` is the expected cohort size.

    Args:
        sampler: Bound sampler.
        population: The clients.
        mu: mu_i of each f_i [n].
        gradients: grad f_i(x*) [n, d].
    """
    weighted = population.lambdas * mu
    designs = {
        "full": Full(),
        "nonuniform, equal p": NonUniform(np.full(population.count, 1 / population.count)),
        "nonuniform, importance": NonUniform(weighted / weighted.sum()),
        "nice": Nice(max(1, round(inclusion(sampler, population).sum()))),
    }
    strata = strata_of(sampler, population)
    if strata is not None:
        designs |= {"block": Block(strata), "stratified": Stratified(strata)}
    bound = {name: each.bind(population) for name, each in designs.items()}
    table = {
        name: {
            "clients": float(inclusion(each, population).sum()),
            "mu_as": convexity(each, population, mu),
            "sigma2_as": variance(each, population, gradients),
        }
        for name, each in bound.items()
    }
    if strata is not None:
        table["stratified"]["lemma_1"] = stratified_bound(bound["stratified"], population, gradients)
    return table


def strata_of(sampler: Sampler, population: Population) -> Int[np.ndarray, " n"] | None:
    """Return the stratum of each client: those of the sampler, else those of the split; None where there are none.

    Args:
        sampler: Bound sampler.
        population: The clients.
    """
    drawn = design(sampler, population)
    if isinstance(drawn, Staged) and 1 < drawn.sizes.size < population.count:
        return drawn.stratum
    return None if population.strata is None else np.asarray(population.strata)
