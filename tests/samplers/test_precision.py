"""Cohorts depend on seeds only: they are the same in single and in double precision."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import SAMPLERS
from turnout.core.seeds import Seeds
from turnout.engines.sweep import in_batches
from turnout.experiment.describe import plan_for
from turnout.runs.setup import bind, scope

ROUNDS = 50
RULES = {
    "k-vib": t.Independent(t.KVib(), size=3.0),
    "vrb": t.WithReplacement(t.Vrb(), size=3),
    "mabs": t.WithReplacement(t.Mabs(), size=3),
    "avare": t.DesRaj(t.Avare(), size=3),
    "osmd": t.Pivotal(t.Osmd(), size=3),
    "a-osmd": t.Systematic(t.AOsmd(), size=3),
    "last norm": t.Pivotal(t.LastNorm(), size=3),
    "coins": t.Independent([0.1, 0.9, 0.3, 0.6, 0.5, 1.0]),
    "one coin": t.Independent(0.3),
    "chain of coins": t.Available(t.Independent(size=3.0), probability=0.7, memory=0.5),
}


@partial(jax.jit, static_argnames="population")
def cohorts(sampler, population, losses):
    """The clients and places of every round, as a run passes sampler and state through one compiled program."""
    seeds = Seeds.of(3)

    def step(state, number):
        key = seeds.draw(number, 0)
        if isinstance(sampler, t.Available):
            state = sampler._transition(state[0], jax.random.fold_in(key, 7), number == 1), state[1]
        if sampler.consults_before_draw:
            asked = sampler.consulted_cohort(state, key, population)
            answered = jnp.zeros(population.count, bool).at[asked.ids].set(asked.active)
            state = sampler.observe_consulted(state, losses, answered, population)
        cohort = sampler.draw(state, key, population)
        feedback = losses[cohort.ids].astype(cohort.share.dtype)
        return sampler.observe(sampler.advance(state, key), cohort, feedback), (cohort.ids, cohort.active, cohort.expansion)

    return jax.lax.scan(step, sampler.start(population), jnp.arange(1, ROUNDS + 1))[1]


def counts(ids, active, expansion):
    """What each client counts in each round [rounds, 6]; the places of a cohort have no order."""
    counted = np.zeros((ROUNDS, 7))
    np.put_along_axis(counted, np.where(active, ids, 6), np.asarray(expansion), axis=1)
    return counted[:, :6]


@pytest.mark.tiers(
    quick=[], longer=["nice", "available", "k-vib"], slow=["independent", "replacement", "cube", "stratified", "adaptive-size"]
)
@pytest.mark.parametrize("name", [*(name for name in SAMPLERS if name != "gradient-stratified"), *RULES])
def test_cohorts_are_those_of_the_seed_in_both_precisions(name):
    problem = t.Quadratic.random(6, 3, seed=0)
    drawn = {}
    for precision in ("single", "double"):
        with scope(precision):
            sampler = bind({**SAMPLERS, **RULES}[name], problem, ROUNDS)
            drawn[precision] = cohorts(sampler, problem.population, jnp.array([1.0, 3, 2, 5, 4, 2.5]))
    (ids, active, expansion), (double_ids, double_active, double_expansion) = drawn["single"], drawn["double"]
    assert (expansion.dtype, double_expansion.dtype) == (np.float32, np.float64)
    single, double = counts(ids, active, expansion), counts(double_ids, double_active, double_expansion)
    np.testing.assert_array_equal(single > 0, double > 0)
    np.testing.assert_allclose(single, double, rtol=1e-4)


@pytest.mark.longer
@pytest.mark.filterwarnings("error")
def test_cells_that_are_computed_side_by_side_draw_as_runs_do():
    """In single precision, the draws being in a loop within each cell."""
    population = t.Population(count=6)
    sampler = t.Pivotal([0.2, 0.9, 0.4, 0.3, 0.7, 0.5], size=3).bind(population)

    def one(seed):
        def add(number, counted):
            cohort = sampler.draw(None, jax.tree.map(lambda _: seed, Seeds.of(0)).draw(number, 0), population)
            return counted.at[cohort.ids].add(cohort.expansion)

        return jax.lax.fori_loop(0, 5, add, jnp.zeros(6, jnp.result_type(float)))

    with scope("single"):
        seeds = jnp.arange(4, dtype="int32")
        together = jax.jit(lambda seeds: in_batches(one, seeds, 2))(seeds)
        apart = [jax.jit(one)(seed) for seed in seeds]
    np.testing.assert_array_equal(together, apart)


@pytest.mark.longer
@pytest.mark.filterwarnings("error")
def test_cost_estimates_are_those_of_the_seed_in_both_precisions():
    """Of cohorts of random size."""
    problem = t.Quadratic.random(6, 3, seed=0)
    algorithm = t.MbGd(t.Independent([0.2, 0.9, 0.4, 0.3, 0.7, 0.5]), lr=0.1)
    plans = [plan_for(algorithm, problem, seeds=Seeds.of(0), rounds=9, precision=precision) for precision in ("single", "double")]
    single, double = ([call.counts for call in plan.calls] for plan in plans)
    assert len(single) > 0 and single == double
