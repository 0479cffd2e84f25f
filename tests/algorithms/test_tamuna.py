"""TAMUNA against a plain program of its paper, and against the rate of its theorem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.helpers.examples import network, small
from tests.helpers.gradients import client_gradient
from tests.helpers.theorems import LocalTheorem
from turnout.core.seeds import Seeds
from turnout.theory.compression import tamuna_steps

LR, P, SEED = 0.05, 0.4, 3


def senders(slots, copies, size) -> list[list[int]]:
    """The places of a cohort that send each number: slot c has the copies c, c + m, c + 2m, ... of all numbers in turn."""
    dealt = [(k, copy % len(slots)) for copy, k in enumerate(np.repeat(np.arange(size), copies))]
    return [[place for place, slot in enumerate(slots) if (k, slot) in dealt] for k in range(size)]


def program(problem, sampler, copies, steps) -> np.ndarray:
    n, d = problem.clients, 3
    x, h, rate = np.zeros(d), np.zeros((n, d)), P * n * (copies - 1) / (copies * (n - 1)) / LR
    for number, cohort in enumerate(cohorts(sampler, problem, SEED), start=1):
        key = jax.random.fold_in(Seeds.of(SEED).exchange(number, 0), n)
        slots = np.asarray(jax.random.permutation(jax.random.fold_in(key, 1), jnp.arange(len(cohort), dtype="int32")))
        z = np.tile(x, (len(cohort), 1))
        for place, (i, *_) in enumerate(cohort):
            for _ in range(int(steps[number - 1])):
                z[place] = z[place] - LR * (client_gradient(problem, i, z[place]) - h[i])
        for k, places in enumerate(senders(slots, copies, d)):
            assert len(places) == copies
            shares = np.array([cohort[place][1] for place in places])
            x[k] = shares @ z[places, k] / shares.sum()
            for place in places:
                h[cohort[place][0], k] += rate * (x[k] - z[place, k])
        np.testing.assert_allclose(np.asarray(problem.population.shares) @ h, 0, atol=1e-12)
    return x


@pytest.mark.tiers(quick=[], longer=["nice"])
@pytest.mark.parametrize(("sampler", "copies"), [(t.Nice(4), 2), (t.Full(), 5)], ids=["nice", "full"])
def test_a_run_is_its_numpy_program(sampler, copies):
    trace = t.run(t.Tamuna(sampler, copies, lr=LR, probability=P), small(), rounds=5, seed=SEED)
    steps = np.diff(trace.frame["queries_slowest"])
    np.testing.assert_allclose(trace.x, program(small(), sampler, copies, steps), atol=1e-12)


CASES = {"full": (t.Full(), 5, 0.5), "nice": (t.Nice(5), 3, None)}


def tamuna_theorem(name, problem) -> LocalTheorem:
    """Of n |x - x*|^2, which is a part of Psi."""
    (sampler, copies, p), n = CASES[name], problem.clients
    matrices, vectors = (np.asarray(part) for part in problem.rows)
    x = np.linalg.solve(matrices.mean(0), vectors.mean(0))
    lr, p = tamuna_steps(problem, copies, probability=p)
    mu, largest = np.linalg.eigvalsh(matrices).min(), np.linalg.eigvalsh(matrices).max()
    chi, r = n * (copies - 1) / (copies * (n - 1)), (copies - 1) / (n - 1)
    rate = max((1 - lr * mu) ** 2, (1 - lr * largest) ** 2, 1 - p**2 * chi * r)
    first = x @ x + lr**2 / (p**2 * chi * r) * np.mean(np.sum((matrices @ x - vectors) ** 2, axis=1))
    return LocalTheorem(problem, t.Tamuna(sampler, copies, probability=p), first, rate)


@pytest.mark.tiers(quick=[], longer=["full"])
@pytest.mark.parametrize("name", CASES)
def test_the_error_falls_at_the_theorems_rate(name):
    tamuna_theorem(name, t.Quadratic.random(10, 6, seed=5)).check(rounds=40, seeds=16, fall=10, allowed=0)


def test_the_steps_make_the_terms_of_the_rate_equal():
    problem = t.Quadratic.random(100, 6, seed=5)
    constants = problem.constants()
    mu, largest = np.min(constants.convexity), np.max(constants.smoothness)
    lr, p = tamuna_steps(problem, copies=100)
    assert lr == pytest.approx(2 / (mu + largest)) and 0 < p < 1
    assert (1 - lr * mu) ** 2 == pytest.approx((1 - lr * largest) ** 2) == pytest.approx(1 - p**2)
    assert tamuna_steps(problem, copies=2, lr=0.1) == (0.1, 1.0)


MISTAKES = {
    "size": (lambda: t.Tamuna(t.Independent(size=3.0), copies=2), small, "needs cohorts of one size"),
    "copies": (lambda: t.Tamuna(t.Nice(3), copies=4), small, "a cohort has 3 clients"),
    "convexity": (lambda: t.Tamuna(t.Full(), copies=2), network, "give lr and probability"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name):
    make, problem, sentence = MISTAKES[name]
    with pytest.raises(t.UserError, match=sentence):
        t.run(make(), problem(), rounds=1)
