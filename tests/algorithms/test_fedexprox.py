"""FedExProx: against plain programs, and in every round the decrease that its theory promises."""

import numpy as np
import pytest

import turnout as t
from tests.helpers.similar import CLIENTS, Exact, cohort, gap, optimum, servers, similar, tilted, weights

GAMMA, ROUNDS = 0.3, 6
COMMON = np.array([1.0, -2.0, 0.5, 3.0])


def interpolated(equal: bool = True) -> t.Quadratic:
    """Clients that differ, but share their minimiser."""
    problem = similar(equal, share=0.9)
    return t.Quadratic.of(problem.rows[0], problem.rows[0] @ COMMON, weights=problem.population.weights)


def least(problem) -> np.ndarray:
    """inf f_i [n]."""
    matrices, vectors = problem.rows
    return -np.einsum("ni,ni->n", vectors, np.linalg.solve(matrices, vectors[..., None])[..., 0]) / 2


def envelopes(problem, x) -> np.ndarray:
    """M_i(x) - inf f_i [n]."""
    points = np.array([tilted(problem, i, 0.0, 1 / GAMMA, x) for i in range(CLIENTS)])
    matrices, vectors = problem.rows
    away = points - np.linalg.solve(matrices, vectors[..., None])[..., 0]
    return np.einsum("ni,nij,nj->n", away, matrices, away) / 2 + np.sum((points - x) ** 2, axis=1) / (2 * GAMMA)


def smoothness(problem) -> float:
    """L_gamma, that of sum_i lambda_i M_i, whose Hessian is the mean of A_i (I + gamma A_i)^-1."""
    matrices = problem.rows[0]
    hessian = np.tensordot(weights(problem), matrices @ np.linalg.inv(np.eye(4) + GAMMA * matrices), 1)
    return float(np.linalg.norm(hessian, 2))


def extrapolation(problem, rule, x, clients, shares) -> tuple[np.ndarray, float]:
    """mean x_i - x, and alpha by its definition."""
    steps = np.array([tilted(problem, i, 0.0, 1 / GAMMA, x) - x for i in clients])
    step = shares @ steps
    if rule == "grads":
        return step, shares @ np.sum(steps**2, axis=1) / (step @ step)
    return step, shares @ envelopes(problem, x)[clients] / (GAMMA * np.sum((step / GAMMA) ** 2))


def make(problem, rule, sampler, alpha=None) -> t.Algorithm:
    return t.FedExProx(sampler, Exact(), GAMMA, alpha=alpha, rule=rule, minimum=least(problem))


@pytest.mark.tiers(quick=[], longer=["stops-nice"])
@pytest.mark.parametrize(("sampler", "equal"), [(t.Nice(3), False), (t.Independent(size=1.5), True)], ids=["nice", "independent"])
@pytest.mark.parametrize("rule", ["grads", "stops"])
def test_a_run_is_its_numpy_program(rule, sampler, equal):
    problem, x = similar(equal), np.zeros(4)
    trace = t.run(make(problem, rule, sampler), problem, rounds=ROUNDS, seed=1)
    for number in range(1, ROUNDS + 1):
        clients, shares = cohort(sampler, problem, 1, number)
        if clients:
            step, alpha = extrapolation(problem, rule, x, clients, shares)
            x = x + alpha * step
    np.testing.assert_allclose(trace.x, x, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_the_factor_one_is_the_mean_of_proximal_points():
    problem = similar(False)
    one = t.run(t.FedExProx(t.Nice(3), Exact(), GAMMA, alpha=1.0), problem, rounds=ROUNDS)
    other = t.run(t.FedProxSppm(t.Nice(3), gamma=GAMMA, solver=Exact()), problem, rounds=ROUNDS)
    np.testing.assert_allclose(one.x, other.x, atol=1e-12)


@pytest.mark.tiers(quick=["constant-False", "grads-False"], longer=["constant-True", "grads-True", "stops-False"])
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("rule", ["constant", "grads", "stops"])
def test_every_round_falls_by_what_theory_promises(rule, equal):
    """|x - x*|^2 by c (M(x) - M(x*)), with a common minimiser and everyone; and the least alpha of each rule."""
    check_fedexprox(rule, interpolated(equal), COMMON, fall=1000)


def check_fedexprox(rule, problem, common, fall) -> None:
    """`common` is the minimiser of all f_i."""
    largest, everyone = max(problem.constants().smoothness), list(range(CLIENTS))
    constant = 1 / (GAMMA * smoothness(problem))
    algorithm = make(problem, "grads" if rule == "constant" else rule, t.Full(), constant if rule == "constant" else None)
    states = servers(algorithm, problem, 12)
    for x, new in zip(states[:-1], states[1:], strict=True):
        alpha = constant if rule == "constant" else extrapolation(problem, rule, x, everyone, weights(problem))[1]
        assert alpha >= {"constant": 1, "grads": 1, "stops": constant / 2}[rule] * (1 - 1e-6)
        envelope = weights(problem) @ envelopes(problem, x)
        promised = {
            "constant": alpha * GAMMA * (2 - alpha * GAMMA * smoothness(problem)),
            "grads": alpha * GAMMA * (2 - GAMMA * largest / (1 + GAMMA * largest)),
            "stops": alpha * GAMMA,
        }[rule]
        before, after = (np.sum((point - common) ** 2) for point in (x, new))
        assert after <= before - promised * envelope + 1e-12 * before + 1e-20
        assert envelope >= gap(problem, x) / (1 + GAMMA * largest) - 1e-12
    np.testing.assert_allclose(optimum(problem), common)
    assert after < np.sum(common**2) / fall


def test_extrapolation_beats_the_mean_of_proximal_points():
    """The constant of theory and gradient diversity, on clients with a common minimiser, by a factor of ten in |x - x*|^2."""
    problem, rounds = interpolated(), 12
    alphas = {"mean": 1.0, "constant": 1 / (GAMMA * smoothness(problem)), "grads": None}
    left = {
        name: np.sum((t.run(make(problem, "grads", t.Full(), alpha), problem, rounds=rounds).x - COMMON) ** 2)
        for name, alpha in alphas.items()
    }
    assert max(left["constant"], left["grads"]) < left["mean"] / 10
