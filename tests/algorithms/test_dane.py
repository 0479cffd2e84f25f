"""DANE and AIDE: against plain programs, and the map and the bound of their papers."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.helpers.similar import Exact, flat, gap, least_curvature, optimum, servers, similar, slope, tilted, weights

ROUNDS, LAM, KAPPA, MU, LR = 25, 7.0, 4.0, 0.8, 0.9


def iterated(problem, cohort, x, centre, kappa) -> np.ndarray:
    """An iteration of DANE, minimising f_i(w) + (kappa / 2) |w - centre|^2 with all its terms."""
    if not cohort:
        return x
    pull = kappa * (x - centre)
    g = sum(weight * slope(problem, i, x) for i, _, weight in cohort) + pull
    total, moved = kappa + LAM, np.zeros_like(x)
    for i, share, _ in cohort:
        linear = slope(problem, i, x) + pull - LR * g
        moved = moved + share * (tilted(problem, i, linear, total, (kappa * centre + LAM * x) / total) - x)
    return x + moved / sum(share for _, share, _ in cohort)


def dane(problem, draws) -> np.ndarray:
    x = np.zeros(4)
    for cohort in draws:
        x = iterated(problem, cohort, x, x, 0.0)
    return x


SAMPLERS = {"nice": (t.Nice(3), False), "coins": (t.Independent(size=4.0), True)}


@pytest.mark.tiers(quick=[], longer=["coins"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_dane_is_its_numpy_program(name):
    sampler, equal = SAMPLERS[name]
    trace = t.run(t.Dane(sampler, Exact(), lam=LAM, lr=LR), similar(equal), rounds=ROUNDS, seed=1)
    np.testing.assert_allclose(trace.x, dane(similar(equal), cohorts(sampler, similar(equal), 1, ROUNDS)), atol=1e-10)


@pytest.mark.longer
def test_aide_is_its_numpy_program():
    """In which clients know y, with everyone."""
    problem, inner = similar(False), 3
    everyone = [(i, share, share) for i, share in enumerate(weights(problem))]
    x = y = np.zeros(4)
    root = np.sqrt(MU / (MU + KAPPA))
    for _ in range(ROUNDS):
        new = x
        for _ in range(inner):
            new = iterated(problem, everyone, new, y, KAPPA)
        x, y = new, new + (1 - root) / (1 + root) * (new - x)
    aide = t.Aide(t.Full(), Exact(), lam=LAM, lr=LR, kappa=KAPPA, mu=MU, inner=inner)
    np.testing.assert_allclose(t.run(aide, problem, rounds=ROUNDS).x, x, atol=1e-10)


def check_dane(problem, lam, lr, fall) -> None:
    """Require x - x* to be mapped in each round as the paper says, and to be `fall` times as short in the end."""
    matrices, shares, best = problem.rows[0], weights(problem), optimum(problem)
    inverse = np.tensordot(shares, np.linalg.inv(matrices + lam * np.eye(4)), 1)
    turn = np.eye(4) - lr * inverse @ np.tensordot(shares, matrices, 1)
    states = servers(t.Dane(t.Full(), Exact(), lam=lam, lr=lr), problem, 20)
    for old, new in zip(states[:-1], states[1:], strict=True):
        np.testing.assert_allclose(new - best, turn @ (old - best), atol=1e-12 * max(1.0, np.linalg.norm(best)))
    assert np.linalg.norm(states[-1] - best) < np.linalg.norm(best) / fall


@pytest.mark.longer
def test_quadratics_fall_by_the_map_of_the_paper():
    check_dane(similar(False), lam=1.5, lr=0.8, fall=1000)


def test_one_round_is_enough_for_clients_that_are_alike():
    problem = similar(share=0.0)
    np.testing.assert_allclose(t.run(t.Dane(t.Full(), Exact()), problem, rounds=1).x, optimum(problem), atol=1e-12)


def check_aide(problem, lam, kappa, fall, rounds=60) -> float:
    """Enough iterations for exact minimisers. Returns the largest share of the bound."""
    mu = least_curvature(problem)
    states = servers(t.Aide(t.Full(), Exact(), lam=lam, kappa=kappa, mu=mu, inner=400), problem, rounds)
    gaps = np.array([gap(problem, state.x) for state in states])
    first = gaps[0] + mu / 2 * np.sum((states[0].x - optimum(problem)) ** 2)
    bound = first * (1 - np.sqrt(mu / (mu + kappa))) ** np.arange(rounds + 1) * (1 + 1e-6) + 1e-12
    assert np.all(gaps <= bound) and gaps[-1] < gaps[0] / fall
    return float(np.max(gaps / bound))


@pytest.mark.longer
def test_aide_is_within_catalysts_bound():
    """Along a flat direction that all clients share; DANE alone is slower."""
    assert least_curvature(flat(0.02)) == pytest.approx(0.02)
    check_aide(flat(0.02), lam=40.0, kappa=1.0, fall=1000)
