"""5GCS: against a plain program, its bound, the fixed point with rough solutions and lost replies, and mistakes."""

import numpy as np
import pytest

import turnout as t
from tests.helpers.similar import CLIENTS, SHARES, Exact, cohort, full_slope, optimum, similar, slope, tilted, weights
from tests.helpers.theorems import Theorem
from turnout.core.seeds import Seeds
from turnout.runs.session import Session
from turnout.runs.setup import bind

GAMMA, MU, SIZE, ROUNDS = 0.1, 0.7, 3, 6


def five_gcs(problem, sampler, seed) -> np.ndarray:
    """x, with the dual variables u_i = lambda_i h_i of the paper in a table and v as their sum."""
    x, table = np.zeros(4), np.zeros((CLIENTS, 4))
    for number in range(1, ROUNDS + 1):
        clients, _ = cohort(sampler, problem, seed, number)
        if not clients:
            continue
        z = (x - GAMMA * table.sum(axis=0)) / (1 + GAMMA * MU)
        x = z
        for i in clients:
            share = weights(problem)[i]
            # argmin phi_i(y) + (tau / 2) |y - z - u_i / (tau share)|^2 / share with tau = share / gamma
            y = tilted(problem, i, z / GAMMA + table[i] / share, 1 / GAMMA - MU, 0.0)
            new = share * (slope(problem, i, y) - MU * y)
            x, table[i] = x - GAMMA * CLIENTS / SIZE * (new - table[i]), new
    return x


@pytest.mark.tiers(longer=["True"])
@pytest.mark.parametrize("equal", [True, False])
def test_a_run_is_its_numpy_program(equal):
    problem = similar(equal)
    trace = t.run(t.FiveGcs(t.Nice(SIZE), Exact(), GAMMA, mu=MU), problem, rounds=ROUNDS, seed=1)
    np.testing.assert_allclose(trace.x, five_gcs(problem, t.Nice(SIZE), 1), atol=1e-11)
    totals = trace.ledger.totals()
    assert totals["vectors_down"] == totals["vectors_up"] == totals["contacts"] == SIZE * ROUNDS


def gcs_theorem(size, problem) -> Theorem:
    """|x - x*|^2 <= gamma Psi, gamma^2 = m / (n mu L), mu the smallest mu_i of the problem."""
    mu, largest = min(problem.constants().convexity), max(problem.constants().smoothness)
    gamma = np.sqrt(size / (CLIENTS * mu * largest))
    x = optimum(problem)
    duals = np.array([slope(problem, i, x) - mu * x for i in range(CLIENTS)])
    dual_weight = CLIENTS / size * (gamma + 2 / (largest - mu))
    first = x @ x / gamma + dual_weight * np.mean(np.sum(duals**2, axis=1))
    factor = max(1 / (1 + 2 * gamma * mu), 1 - size / CLIENTS * 2 / (2 + gamma * (largest - mu)))
    return Theorem(problem, t.FiveGcs(t.Nice(size), Exact(), float(gamma)), "distance", gamma * first, factor)


@pytest.mark.tiers(quick=[], longer=["6"])
@pytest.mark.parametrize("size", [2, 6])
def test_its_bound_holds(size):
    gcs_theorem(size, similar(share=0.9)).check(rounds=80, seeds=60, every=8, fall=100)


@pytest.mark.tiers(quick=[], slow=["repeat"])
@pytest.mark.parametrize("missing", ["skip", "repeat"])
def test_rough_solutions_and_lost_replies_change_the_speed_only(missing):
    """v = sum_i lambda_i h_i to rounding in every row, and x = x*, h_i = grad f_i(x*) - mu x* at last."""
    problem, mu = similar(False), 0.7
    rough = t.client_solvers.Gradient(lr=1 / 60, steps=2, tolerance=0.0)
    session = Session(
        t.FiveGcs(t.Nice(SIZE), rough, 0.02, mu=mu),
        problem,
        seeds=Seeds.of(0),
        rounds=4000,
        every=1000,
        faults=t.Faults(0.2, missing),
    )
    for _ in session.play():
        np.testing.assert_allclose(SHARES @ np.asarray(session.progress.clients), session.progress.server.v, atol=1e-10)
    x = np.asarray(session.progress.server.x)
    np.testing.assert_allclose(full_slope(problem, x), 0.0, atol=1e-8)
    np.testing.assert_allclose(session.progress.clients, problem.rows[0] @ x - problem.rows[1] - mu * x, atol=1e-6)


def test_mistakes_are_sentences():
    with pytest.raises(t.UserError, match=r"gamma < 1 / mu = 1.42857, but gamma is 1.5: make it smaller"):
        bind(t.FiveGcs(t.Nice(2), Exact(), 1.5, mu=0.7), similar())
    flat = t.Problem(rows=np.zeros(4), offsets=np.arange(5), population=t.Population(count=4))
    with pytest.raises(t.UserError, match="FiveGcs needs mu: Problem does not know"):
        bind(t.FiveGcs(t.Nice(2), Exact(), 1.5), flat)
