"""Whole runs against plain NumPy programs that are run here, on the cohorts that the samplers really drew."""

from itertools import product

import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import PROBLEMS, quadratic
from tests.helpers.gradients import client_gradient
from tests.helpers.similar import draw_of
from turnout.core.seeds import Seeds
from turnout.runs.setup import bind

ROUNDS = 5
SAMPLERS = {
    "nice": lambda: t.Nice(4),
    "independent": lambda: t.Independent(size=4.0),
    "stratified": lambda: t.Stratified(strata=[0, 1, 1, 2, 2, 2] * 2),
    "full": lambda: t.Full(),
}


def cohorts(sampler, problem, seed, rounds=ROUNDS, count=0):
    """Yield each round's clients with their lambda_i and lambda_i / p_i, those of draw number `count` in the round."""
    bound = bind(sampler, problem)
    for number in range(1, rounds + 1):
        cohort = draw_of(bound, Seeds.of(seed).draw(number, count), problem.population)
        active = np.asarray(cohort.active)
        yield [
            (int(i), float(share), float(weight))
            for i, share, weight in zip(
                np.asarray(cohort.ids)[active], np.asarray(cohort.share)[active], np.asarray(cohort.weight)[active], strict=True
            )
        ]


def local_descent(problem, i, x, lr, steps):
    y = x.copy()
    for _ in range(steps):
        y = y - lr * client_gradient(problem, i, y)
    return y


def fedavg(problem, sampler, seed):
    x = np.zeros(5)
    for cohort in cohorts(sampler, problem, seed):
        if cohort:
            x = sum(share * local_descent(problem, i, x, 0.05, 3) for i, share, _ in cohort) / sum(s for _, s, _ in cohort)
    return x


def mblocalgd(problem, sampler, seed):
    x = np.zeros(5)
    for cohort in cohorts(sampler, problem, seed):
        x = x + sum((weight * (local_descent(problem, i, x, 0.05, 3) - x) for i, _, weight in cohort), np.zeros(5))
    return x


def mbgd(problem, sampler, seed):
    x = np.zeros(5)
    for cohort in cohorts(sampler, problem, seed):
        x = x - 0.05 * sum((weight * client_gradient(problem, i, x) for i, _, weight in cohort), np.zeros(5))
    return x


ALGORITHMS = {
    "fedavg": (lambda s: t.FedAvg(s, lr=0.05, steps=3), fedavg),
    "mblocalgd": (lambda s: t.MbLocalGd(s, lr=0.05, steps=3), mblocalgd),
    "mbgd": (lambda s: t.MbGd(s, lr=0.05), mbgd),
}


RUNS = {f"{name}-{sampler}": (name, sampler) for sampler in SAMPLERS for name in ALGORITHMS}


@pytest.mark.tiers(
    quick=["fedavg-nice-quadratic"],
    longer=["mbgd-full-logistic"],
    slow=[
        "fedavg-independent-logistic",
        "mblocalgd-independent-quadratic",
        "mbgd-independent-logistic",
        "fedavg-stratified-quadratic",
    ],
)
@pytest.mark.parametrize(("run", "problem"), [*product(RUNS, ["quadratic", "logistic"])])
def test_a_run_is_its_numpy_program(run, problem):
    name, sampler = RUNS[run]
    make, reference = ALGORITHMS[name]
    problem = PROBLEMS[problem]
    for seed in (0, 1):
        trace = t.run(make(SAMPLERS[sampler]()), problem(), rounds=ROUNDS, seed=seed)
        np.testing.assert_allclose(trace.x, reference(problem(), SAMPLERS[sampler](), seed), atol=1e-12)


@pytest.mark.tiers(quick=[], longer=["full"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sppm_takes_exact_proximal_steps_given_enough_exchanges(sampler):
    """x <- (sum_S w_i A_i + I / gamma)^-1 (sum_S w_i b_i + x / gamma) on quadratics."""
    problem, gamma = quadratic(), 3.0
    trace = t.run(t.Sppm(SAMPLERS[sampler](), t.solvers.Bfgs(), gamma, inner=60), problem, rounds=ROUNDS, seed=2)
    matrices, vectors = problem.rows
    x = np.zeros(5)
    for cohort in cohorts(SAMPLERS[sampler](), problem, 2):
        a = sum((weight * matrices[i] for i, _, weight in cohort), np.eye(5) / gamma)
        x = np.linalg.solve(a, sum((weight * vectors[i] for i, _, weight in cohort), x / gamma))
    np.testing.assert_allclose(trace.x, x, atol=1e-9)
