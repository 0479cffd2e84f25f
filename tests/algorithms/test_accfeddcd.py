"""AccFedDCD: against Algorithm 2 in NumPy, its theorem, and what no lost reply may break."""

from itertools import combinations

import numpy as np
import pytest

import turnout as t
from tests.helpers.duals import (
    ALPHA,
    BETA,
    CLIENTS,
    EQUAL,
    FLAT,
    SHARES,
    SIZE,
    Exact,
    check_constraint,
    check_deliveries,
    check_nodes,
    check_theorem,
    cohorts,
    differences,
    owed,
    quadratic,
    solution,
)
from turnout.runs.setup import bind


def acc(**options) -> t.AccFedDcd:
    return t.AccFedDcd(t.Nice(SIZE), Exact(), **options)


def algorithm_2(problem, shares, rounds, lr, alpha):
    """Yield the mean of each round's second set."""
    y = z = np.zeros((CLIENTS, 3))
    r, s = (SIZE - 1) / (CLIENTS - 1), np.sqrt(ALPHA / BETA)
    a = s / (1 / r + s)
    b = ALPHA * a * r**2 / BETA
    for members, others in zip(cohorts(rounds, 0), cohorts(rounds, 1), strict=True):
        v = (1 - a) * y + a * z
        w = np.array([solution(problem, i, v[i]) for i in range(CLIENTS)])
        first, _ = differences(w, members, alpha, shares)
        second, mean = differences(w, others, alpha, shares)
        u = (a**2 * z + b * v) / (a**2 + b)
        y, z = v - lr * first, u - lr * a * r / (a**2 + b) * second
        yield mean


@pytest.mark.slow
@pytest.mark.parametrize(("shares", "lr"), [(EQUAL, 1.0), (SHARES, 0.9)], ids=["equal", "unequal"])
def test_both_deliveries_are_algorithm_2(shares, lr):
    """With equal clients, and with lambda_i of their own."""
    means = np.array(list(algorithm_2(quadratic(shares), shares, 25, lr, np.full(CLIENTS, ALPHA))))
    check_deliveries(lambda delivery: acc(delivery=delivery, lr=lr), means, shares)


@pytest.mark.slow
def test_theorem_6_1_holds():
    s = np.sqrt(ALPHA / BETA)
    check_theorem(acc(), 1 - s / ((CLIENTS - 1) / (SIZE - 1) + s))


def virtual(session) -> np.ndarray:
    """Every client's y and z [n, 2, d] as if each had met the server: owed steps made, missed rounds made up for."""
    algorithm, (clients, step) = session.engine.algorithm, owed(session)
    r, s = algorithm.fraction, np.sqrt(algorithm.convexity / algorithm.smoothness)
    a = s / (1 / r + s)
    b = a * r**2 * s**2
    once = np.array([[1 - a, a], [b * (1 - a), a**2 + a * b]]) / np.array([[1], [a**2 + b]])
    second = clients.met[:, None] % 2 == 1
    y, z = clients.y - np.where(second, 0, step), clients.z - np.where(second, a * r / (a**2 + b) * step, 0)
    powers = [np.linalg.matrix_power(once, session.round - 1 - met // 2) for met in clients.met]
    return np.array(powers) @ np.stack([y, z], axis=1)


@pytest.mark.tiers(quick=[], slow=["lazy-skip"])
@pytest.mark.parametrize(("delivery", "missing"), [("lazy", "skip"), ("eager", "skip"), ("lazy", "repeat")])
def test_no_lost_reply_breaks_the_constraint(delivery, missing):
    check_constraint(acc(delivery=delivery), missing, virtual)


@pytest.mark.slow
def test_nodes_that_lose_replies_give_the_compiled_run():
    check_nodes(acc(delivery="lazy"), virtual)


@pytest.mark.parametrize(
    ("algorithm", "problem", "words"),
    [
        (t.AccFedDcd(t.Nice(1), Exact()), quadratic(), "fewer than two clients a round"),
        (t.AccFedDcd(t.Nice(2), Exact()), FLAT, "client 1 has mu_i = 0"),
        (t.AccFedDcd(t.Independent(size=3.0), Exact()), quadratic(), "needs uniform cohorts of one size"),
        (acc(convexity=[1.0] * CLIENTS), quadratic(), "must be one number, since only with equal steps"),
    ],
)
def test_what_makes_no_step_is_one_sentence(algorithm, problem, words):
    with pytest.raises(t.UserError, match=words):
        bind(algorithm, problem)


@pytest.mark.parametrize("convexity", [np.ones(CLIENTS), np.linspace(1, 3, CLIENTS)], ids=["equal", "unequal"])
def test_only_equal_steps_make_the_mean_projection_a_multiple_of_the_whole(convexity):
    """E[P_S] = r P for uniform cohorts, P_S = D_S - a_S a_S^T / |a_S|^2 with a_i^2 = alpha_i, is what Theorem 6.1 rests on."""

    def projection(members):
        inside = np.isin(np.arange(CLIENTS), members)
        along = np.where(inside, np.sqrt(convexity), 0)
        return np.diag(inside.astype(float)) - np.outer(along, along) / (along @ along)

    mean = np.mean([projection(members) for members in combinations(range(CLIENTS), SIZE)], axis=0)
    multiple = (SIZE - 1) / (CLIENTS - 1) * projection(range(CLIENTS))
    assert np.allclose(mean, multiple, atol=1e-12) == np.all(convexity == 1)
    assert np.allclose(mean, multiple, atol=1e-3) == np.all(convexity == 1)
