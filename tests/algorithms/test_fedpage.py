"""FedPAGE: against a plain program with its coins, as PAGE with one local step, and with batches."""

import jax
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.helpers.examples import logistic, small
from tests.helpers.gradients import client_gradient, gradient
from turnout.core.seeds import Seeds

ROUNDS, LR = 50, 0.02


def program(problem, sampler, steps, server_lr, p):
    """The plain program, seed 2."""
    x = np.zeros(3)
    g = gradient(problem, x)
    draws = zip(*(cohorts(sampler, problem, 2, ROUNDS, count) for count in (0, 1)), strict=True)
    for number, (cohort, other) in enumerate(draws, start=1):
        moved = np.zeros(3)
        for i, share, _ in cohort:
            y, u = x, g
            for _ in range(steps):
                new = y - LR * u
                u, y = u + client_gradient(problem, i, new) - client_gradient(problem, i, y), new
            moved += share * (y - x)
        new = x + server_lr * moved / sum(share for _, share, _ in cohort)
        if jax.random.bernoulli(jax.random.fold_in(Seeds.of(2).exchange(number, 1), 6), p):
            g = gradient(problem, new)
        else:
            g = g + sum(w * (client_gradient(problem, i, new) - client_gradient(problem, i, x)) for i, _, w in other)
        x = new
    return x


@pytest.mark.tiers(quick=[], longer=["page"])
@pytest.mark.parametrize(("steps", "server_lr"), [(4, 0.7), (1, 1.0)], ids=["local", "page"])
def test_a_run_is_its_numpy_program(steps, server_lr):
    sampler, estimator = t.Nice(3), t.Sarah(probability=0.4)
    algorithm = t.FedPage(sampler, LR, steps, server_lr=server_lr, estimator=estimator)
    trace = t.run(algorithm, small(), rounds=ROUNDS, seed=2)
    np.testing.assert_allclose(trace.x, program(small(), sampler, steps, server_lr, 0.4), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_batches_reach_the_optimum_too():
    """The two gradients of a batch are of the same rows, so that their difference vanishes where the steps do."""
    problem = logistic()
    algorithm = t.FedPage(t.Nice(6), 0.1, 4, batch=2)
    trace = t.run(algorithm, problem, rounds=600, every=600)
    assert np.linalg.norm(gradient(problem, trace.x)) < 1e-8
    assert np.linalg.norm(gradient(problem, np.zeros(5))) > 1e-2
