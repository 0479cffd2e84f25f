"""SVRP and Catalyzed SVRP: against plain programs, their bounds with the parameters of theory, and one another."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.similar import (
    CLIENTS,
    Exact,
    cohort,
    flat,
    full_slope,
    gap,
    least_curvature,
    optimum,
    servers,
    similar,
    slope,
    tilted,
)
from tests.helpers.theorems import Theorem
from turnout.core.seeds import Seeds
from turnout.theory.dissimilarity import exact

GAMMA, KAPPA, MU, INNER, CHANCE, ROUNDS = 0.05, 3.0, 2.0, 3, 0.4, 5


class Chance:
    """The draws and coins of a round, in the order of its exchanges; a full pass is a draw and an exchange as well."""

    def __init__(self, sampler, problem, seed, number):
        self.sampler, self.problem, self.seed, self.number = sampler, problem, seed, number
        self.exchanges = 0

    def a_pass(self):
        self.exchanges += 1

    def clients(self):
        self.exchanges += 1
        return cohort(self.sampler, self.problem, self.seed, self.number, self.exchanges - 1)

    def coin(self) -> bool:
        key = jax.random.fold_in(Seeds.of(self.seed).exchange(self.number, self.exchanges), CLIENTS)
        return bool(jax.random.bernoulli(key, CHANCE))


def iteration(problem, chance, x, w, kappa=0.0, y=0.0):
    """One iteration of SVRP on f + (kappa / 2) |. - y|^2."""
    clients, shares = chance.clients()
    if clients:
        x, before = np.zeros_like(x), x
        for i, share in zip(clients, shares, strict=True):
            centre = before - GAMMA * (full_slope(problem, w) - slope(problem, i, w))
            # argmin f_i + (kappa / 2) |. - y|^2 + |. - centre|^2 / (2 gamma)
            x = x + share * tilted(problem, i, kappa * y + centre / GAMMA, kappa + 1 / GAMMA, 0.0)
    if chance.coin():
        chance.a_pass()
        w = x
    return x, w


def svrp(problem, sampler, seed) -> np.ndarray:
    x = w = np.zeros(4)
    for number in range(1, ROUNDS + 1):
        x, w = iteration(problem, Chance(sampler, problem, seed, number), x, w)
    return x


def catalyzed(problem, sampler, seed) -> np.ndarray:
    x = y = np.zeros(4)
    root = np.sqrt(MU / (MU + KAPPA))
    for number in range(1, ROUNDS + 1):
        chance, new, w = Chance(sampler, problem, seed, number), x, x
        chance.a_pass()
        for _ in range(INNER):
            new, w = iteration(problem, chance, new, w, KAPPA, y)
        y = new + (1 - root) / (1 + root) * (new - x)
        x = new
    return x


MADE = {
    "svrp": (lambda s: t.Svrp(s, Exact(), GAMMA, probability=CHANCE), svrp),
    "catalyzed": (lambda s: t.CatalyzedSvrp(s, Exact(), GAMMA, KAPPA, MU, INNER, probability=CHANCE), catalyzed),
}


@pytest.mark.tiers(quick=[], longer=["catalyzed-nice"])
@pytest.mark.parametrize(("sampler", "equal"), [(t.Nice(2), False), (t.Independent(size=1.5), True)], ids=["nice", "independent"])
@pytest.mark.parametrize("name", MADE)
def test_a_run_is_its_numpy_program(name, sampler, equal):
    make, program = MADE[name]
    problem = similar(equal)
    trace = t.run(make(sampler), problem, rounds=ROUNDS, seed=1)
    np.testing.assert_allclose(trace.x, program(problem, sampler, 1), atol=1e-11)
    totals = trace.ledger.totals()
    assert totals["vectors_up"] == totals["contacts"] < totals["vectors_down"]


def svrp_theorem(size, problem) -> Theorem:
    """gamma = mu / (2 delta^2) and p = 1 / n; where Hessians are alike, delta is mu, which they are within as well."""
    mu, p, best = min(problem.constants().convexity), 1 / CLIENTS, optimum(problem)
    gamma = float(mu / (2 * max(exact(problem).delta, mu) ** 2))
    algorithm = t.Svrp(t.Nice(size), Exact(), gamma, probability=p)
    return Theorem(problem, algorithm, "distance", (1 + gamma * mu / p) * best @ best, max(1 / (1 + gamma * mu), 1 - p / 2))


@pytest.mark.tiers(quick=[], longer=["3"])
@pytest.mark.parametrize("size", [1, 3])
def test_the_bound_of_svrp_holds(size):
    svrp_theorem(size, similar(share=0.5)).check(rounds=60, seeds=100, every=6, fall=1000)


@pytest.mark.longer
def test_the_optimum_is_fixed_for_any_sampler_and_any_weights():
    problem = similar(equal=False, share=0.8)
    x = optimum(problem)
    algorithm = t.Svrp(t.Independent(size=1.5), Exact(), GAMMA, probability=0.3)
    last = servers(algorithm, problem, 20, start=x)[-1]
    np.testing.assert_allclose(last.x, x, atol=1e-12)


@pytest.mark.slow
def test_a_sweep_over_the_probability_is_its_runs():
    problem, probabilities = similar(), [0.1, 0.5, 1.0]
    algorithm = t.Svrp(t.Nice(2), Exact(), GAMMA)
    swept = t.sweep(algorithm, problem, {"probability": probabilities}, seeds=[0], rounds=12).traces
    runs = [t.run(replace(algorithm, probability=p), problem, rounds=12) for p in probabilities]
    ends = np.array([trace.x for trace in runs])
    np.testing.assert_allclose([trace.x for trace in swept], ends, atol=1e-11)
    assert len({*ends[:, 0]}) == len(probabilities)


def check_catalyst(problem, rounds=40) -> float:
    """All clients take part and w = x in each iteration, so that 400 of them find the proximal point to rounding.

    Returns the norm of the gradient at the first proximal point.
    """
    mu, delta, best = least_curvature(problem), exact(problem).delta, optimum(problem)
    delta = max(delta, mu)
    kappa = delta / 2
    algorithm = t.CatalyzedSvrp(t.Full(), Exact(), float((mu + kappa) / (2 * delta**2)), float(kappa), mu, 400)
    states, root = servers(algorithm, problem, rounds), np.sqrt(mu / (mu + kappa))
    gaps = np.array([gap(problem, state.x) for state in states])
    bound = (1 - root) ** np.arange(rounds + 1) * (gaps[0] + mu / 2 * best @ best) * (1 + 1e-9) + 1e-24 * gaps[0]
    assert np.all(gaps <= bound) and gaps[-1] < gaps[0] / 2
    left = np.linalg.norm(full_slope(problem, states[1].x) + kappa * states[1].x)
    assert left < 1e-10 * kappa * np.linalg.norm(best)
    return float(left)


@pytest.mark.longer
def test_accelerated_proximal_points_keep_catalysts_bound():
    assert check_catalyst(flat(0.05)) < 1e-10


@pytest.mark.slow
def test_catalyst_pays_where_the_curvature_is_far_below_the_dissimilarity():
    """delta / mu is more than 100: after as many exchanges with single clients as SVRP makes, a gap 100 times as small."""
    problem, rounds = flat(0.05), 90
    mu, delta = 0.05, exact(problem).delta
    assert delta > 100 * mu
    kappa = delta / np.sqrt(CLIENTS) - mu
    options = {"sampler": t.Nice(1), "solver": Exact(), "probability": 1 / CLIENTS}
    plain = t.run(t.Svrp(gamma=float(mu / (2 * delta**2)), **options), problem, rounds=rounds * 40)
    gamma = float((mu + kappa) / (2 * delta**2))
    catalyzed = t.run(t.CatalyzedSvrp(gamma=gamma, kappa=float(kappa), mu=mu, inner=32, **options), problem, rounds=rounds)
    assert catalyzed.ledger.totals()["contacts"] <= plain.ledger.totals()["contacts"]
    assert gap(problem, catalyzed.x) < gap(problem, plain.x) / 100
