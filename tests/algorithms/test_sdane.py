"""S-DANE and Acc-S-DANE: against plain programs, and the inequalities of their proofs in every round."""

import numpy as np
import pytest

import turnout as t
from tests.helpers.similar import Exact, cohort, flat, gap, optimum, servers, similar, slope, tilted
from turnout.theory.dissimilarity import exact

LAM, MU, ROUNDS = 7.0, 0.8, 5


def proximal_steps(problem, clients, shares, y):
    """The mean of the x_i around y, and that of grad f_i(x_i)."""
    g = shares @ [slope(problem, i, y) for i in clients]
    points = [tilted(problem, i, slope(problem, i, y) - g, LAM, y) for i in clients]
    return shares @ points, shares @ [slope(problem, i, point) for i, point in zip(clients, points, strict=True)]


def s_dane(problem, sampler, seed) -> np.ndarray:
    x = v = np.zeros(4)
    for number in range(1, ROUNDS + 1):
        clients, shares = cohort(sampler, problem, seed, number)
        if clients:
            x, g = proximal_steps(problem, clients, shares, v)
            v = (LAM * v + MU * x - g) / (LAM + MU)
    return x


def acc_s_dane(problem, sampler, seed) -> np.ndarray:
    x, v, total, weight = np.zeros(4), np.zeros(4), 0.0, 1.0
    for number in range(1, ROUNDS + 1):
        clients, shares = cohort(sampler, problem, seed, number)
        if clients:
            a = max(np.roots([LAM, -weight, -total * weight]))
            x, g = proximal_steps(problem, clients, shares, (total * x + a * v) / (total + a))
            v = (weight * v + a * MU * x - a * g) / (weight + a * MU)
            total, weight = total + a, weight + MU * a
    return x


@pytest.mark.tiers(quick=[], longer=["acc-s-dane-nice"])
@pytest.mark.parametrize(("sampler", "equal"), [(t.Nice(3), False), (t.Independent(size=1.5), True)], ids=["nice", "independent"])
@pytest.mark.parametrize(("make", "program"), [(t.SDane, s_dane), (t.AccSDane, acc_s_dane)], ids=["s-dane", "acc-s-dane"])
def test_a_run_is_its_numpy_program(make, program, sampler, equal):
    problem = similar(equal)
    trace = t.run(make(sampler, Exact(), lam=LAM, mu=MU), problem, rounds=ROUNDS, seed=1)
    np.testing.assert_allclose(trace.x, program(problem, sampler, 1), atol=1e-11)


@pytest.mark.tiers(longer=["True-of the clients", "True-0.0"])
@pytest.mark.parametrize("mu", ["of the clients", 0.0])
@pytest.mark.parametrize("equal", [True, False])
def test_the_potential_of_s_dane_falls_as_proved(equal, mu):
    """f(x) - f* + (lam + mu) / 2 |v - x*|^2 <= lam / 2 |last v - x*|^2 with lam = 2 delta; then the gap of the best x so far."""
    check_s_dane(similar(equal), mu and min(similar(equal).constants().convexity), fall=100)


def weight(problem) -> float:
    """lam = 2 delta; where Hessians are alike, delta is a share of L, which they are within as well."""
    return 2 * float(max(exact(problem).delta, 1e-3 * max(problem.constants().smoothness)))


def check_s_dane(problem, mu, fall, rounds=25) -> None:
    lam = weight(problem)
    states, best = servers(t.SDane(t.Full(), Exact(), lam=lam, mu=mu), problem, rounds), optimum(problem)
    distances = [np.sum((state.v - best) ** 2) for state in states]
    gaps = [gap(problem, state.x) for state in states[1:]]
    rounding = 1e-20 * max(1.0, lam * distances[0])
    for last, new, left in zip(distances[:-1], distances[1:], gaps, strict=True):
        assert left + (lam + mu) / 2 * new <= lam / 2 * last * (1 + 1e-9) + rounding
    powers = (1 + mu / lam) ** np.arange(rounds)
    assert np.all(np.minimum.accumulate(gaps) <= lam * distances[0] / (2 * np.cumsum(powers)) + rounding)
    assert gaps[-1] < gaps[0] / fall


@pytest.mark.tiers(longer=["True-of the clients"])
@pytest.mark.parametrize("mu", ["of the clients", 0.0])
@pytest.mark.parametrize("equal", [True, False])
def test_the_potential_of_acc_s_dane_never_grows(equal, mu):
    """A (f(x) - f*) + B / 2 |v - x*|^2 with lam = 2 delta, and A >= t^2 / (4 lam)."""
    check_acc_s_dane(similar(equal), mu and min(similar(equal).constants().convexity), fall=1000)


def check_acc_s_dane(problem, mu, fall, rounds=25) -> None:
    lam = weight(problem)
    states, best = servers(t.AccSDane(t.Full(), Exact(), lam=lam, mu=mu), problem, rounds), optimum(problem)
    totals = np.array([state.total for state in states])
    gaps = np.array([gap(problem, state.x) for state in states])
    potentials = totals * gaps + (1 + mu * totals) / 2 * [np.sum((state.v - best) ** 2) for state in states]
    # A grows on where x and v are x* to rounding.
    rounding = 1e-15 + totals[1:] * max(problem.constants().smoothness) * 1e-30 * max(1.0, best @ best)
    assert np.all(potentials[1:] <= potentials[:-1] * (1 + 1e-9) + rounding)
    assert np.all(totals >= np.arange(rounds + 1) ** 2 / (4 * lam))
    assert gaps[-1] < gaps[0] / fall


@pytest.mark.slow
def test_acceleration_pays_where_the_curvature_is_far_below_the_dissimilarity():
    """delta / mu is more than 100: the same exchanges and bytes, and a gap ten times as small."""
    problem = flat(0.05)
    delta, mu = exact(problem).delta, min(problem.constants().convexity)
    assert delta > 100 * mu
    plain, accelerated = (
        t.run(make(t.Full(), Exact(), lam=2 * delta, mu=mu), problem, rounds=150) for make in (t.SDane, t.AccSDane)
    )
    assert gap(problem, accelerated.x) < gap(problem, plain.x) / 10
    assert accelerated.ledger.totals() == plain.ledger.totals()


def test_too_small_a_weight_breaks_the_inequality():
    """At lam = delta / 10 the potential grows in some round, so that the test above can fail."""
    problem = similar(share=0.8)
    lam, mu = exact(problem).delta / 10, min(problem.constants().convexity)
    states, best = servers(t.SDane(t.Full(), Exact(), lam=lam, mu=mu), problem, 20), optimum(problem)
    assert any(
        gap(problem, new.x) + (lam + mu) / 2 * np.sum((new.v - best) ** 2) > lam / 2 * np.sum((last.v - best) ** 2)
        for last, new in zip(states[:-1], states[1:], strict=True)
    )
