"""ADIANA: against a plain program, within its bound, and beside DIANA where conditioning is bad."""

import jax
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_compressed import EvenPlaces, Known, even_places, weighted
from tests.algorithms.test_references import cohorts
from tests.helpers.examples import small
from tests.helpers.gradients import client_gradient
from tests.helpers.theorems import Theorem
from turnout.core.seeds import Seeds
from turnout.theory.compression import adiana_steps, cohort_variance

ROUNDS = 50


def coin(seed, number, clients, probability) -> bool:
    """The coin that the server throws before its first exchange of a round."""
    key = jax.random.fold_in(Seeds.of(seed).exchange(number, 0), clients)
    return bool(jax.random.bernoulli(key, probability))


@pytest.mark.longer
def test_a_run_is_its_numpy_program():
    problem, sampler, lr, p, mu = small(), t.Nice(4), 0.03, 0.3, 0.8
    theta = min(1 / 4, np.sqrt(lr * mu / p))
    gamma, shares = lr / (2 * (theta + lr * mu)), np.asarray(problem.population.shares)
    y = z = w = np.zeros(3)
    memory = np.zeros((6, 3))
    for number, cohort in enumerate(cohorts(sampler, problem, 2, ROUNDS), start=1):
        x = theta * z + w / 2 + (1 / 2 - theta) * y
        g = shares @ memory
        for i, _, weight in cohort:
            g = g + weight * even_places(client_gradient(problem, i, x) - memory[i])
            memory[i] = memory[i] + even_places(client_gradient(problem, i, w) - memory[i]) / 2
        w = y if coin(2, number, 6, p) else w
        y, z = x - lr * g, (1 - gamma * mu) * z + gamma * mu * x - gamma * g
    trace = t.run(t.Adiana(sampler, EvenPlaces(), lr, p, mu), problem, rounds=ROUNDS, seed=2)
    np.testing.assert_allclose(trace.x, y, rtol=0, atol=1e-10)


CODECS = {
    "rand-k": (t.Full(), t.codecs.RandK(count=2), 1 / 3),
    "participation": (t.Nice(5), t.codecs.RandK(count=3), 1 / 4),
}
"""Sampler, codec and alpha = min_i p_i / (1 + omega)."""


def adiana_theorem(name, problem) -> Theorem:
    (sampler, codec, alpha), known = CODECS[name], Known(problem)
    lr, p, mu = adiana_steps(problem, sampler, codec)
    v, largest = cohort_variance(problem, sampler, codec), np.max(known.smoothness)
    assert mu == pytest.approx(known.mu) and lr <= min(1 / 2, 1 / (16 * v * (1 + 4 * p / alpha) ** 2)) / largest * (1 + 1e-12)
    theta = min(1 / 4, np.sqrt(lr * mu / p))
    gamma = lr / (2 * (theta + lr * mu))
    tau, factor = min(theta * p / 2, gamma * mu, alpha / 4), 2 * gamma * (1 - gamma * mu) / theta
    first = known.gap * (1 + 1 / (2 * (p - tau))) + 8 * lr * v / alpha * known.shares @ np.sum(known.start**2, axis=1)
    return Theorem(problem, t.Adiana(sampler, codec), "gap", first + known.x @ known.x / factor, 1 - tau)


@pytest.mark.tiers(quick=[], slow=["rand-k"])
@pytest.mark.parametrize("name", CODECS)
def test_the_gap_falls_at_the_rate_of_the_proof(name):
    adiana_theorem(name, weighted()).check(rounds=400, seeds=8)


@pytest.mark.slow
def test_bad_conditioning_costs_it_fewer_rounds_than_diana():
    """With the steps of theory, kappa = 10^4 and 32 clients: one falls as exp(-t / kappa), one as exp(-t / sqrt(kappa))."""
    matrix, vectors = np.diag([1.0, 10.0, 100.0, 1e4]), np.random.default_rng(3).normal(size=(32, 4))
    problem, left = t.Quadratic.of(np.array(32 * [matrix]), vectors + [10, 0, 0, 0]), {}
    for make in (t.Diana, t.Adiana):
        gap = t.run(make(t.Full(), t.codecs.RandK(count=2)), problem, rounds=3000, every=3000, metrics=("gap",)).columns["gap"]
        left[make] = gap[-1] / gap[0]
    assert left[t.Diana] > 0.5 and left[t.Adiana] < 0.05


def test_without_strong_convexity_mu_is_asked_for():
    flat = t.Quadratic.of(np.zeros((2, 3, 3)), np.zeros((2, 3)))
    with pytest.raises(t.UserError, match="give mu"):
        t.run(t.Adiana(t.Full(), t.codecs.Identity()), flat, rounds=1)
