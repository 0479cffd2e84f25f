"""GradSkip+: against its algorithm with all points of all clients, as Scaffnew, within its bound, and with random places."""

import jax
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_compressed import EvenPlaces, even_places
from tests.algorithms.test_gradskip import SHARES, slope, unlike
from tests.helpers.theorems import LocalTheorem
from turnout.core.seeds import Seeds
from turnout.theory.compression import gradskip_plus_step

ROUNDS, P = 50, 0.4


@t.record
class Even(EvenPlaces):
    """Twice the numbers at even places, which is linear."""

    linear = True


def steps_of(seed, number):
    return jax.random.geometric(jax.random.fold_in(Seeds.of(seed).exchange(number, 0), 4), P)


@pytest.mark.slow
def test_a_run_is_its_algorithm():
    """The paper's Algorithm 2 with omega = W = 1, 1 / p times C in the place of C_omega, lambda_i in that of 1 / n."""
    problem, lr, grown = unlike(SHARES), 0.002, 2 / P
    points, h, x = np.zeros((4, 3)), np.zeros((4, 3)), np.zeros(3)
    for number in range(1, ROUNDS + 1):
        steps = int(steps_of(1, number))
        for k in range(1, steps + 1):
            slopes = np.array([slope(problem, i, point) for i, point in enumerate(points)])
            held = slopes - np.array([even_places(v) for v in slopes - h]) / 2
            ahead = points - lr * (slopes - held)
            centre = SHARES @ (ahead - lr * grown * held)
            factor = 1 / P if k == steps else 0.0
            g = np.array([factor * even_places(v) for v in ahead - centre]) / (lr * grown)
            points = ahead - lr * g
            h = held + (points - ahead) / (lr * grown)
        x = np.where(np.arange(3) % 2 == 0, centre, x)
    trace = t.run(t.GradSkipPlus(t.Full(), Even(), Even(), lr, P), problem, rounds=ROUNDS, seed=1)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_without_compression_it_is_scaffnew():
    plain, plus = (
        t.run(algorithm, unlike(SHARES), rounds=10)
        for algorithm in (t.Scaffnew(t.Full(), 0.01, P), t.GradSkipPlus(t.Full(), t.codecs.Identity(), lr=0.01, probability=P))
    )
    np.testing.assert_allclose(plus.x, plain.x, rtol=0, atol=1e-12)


def plus_theorem(problem) -> LocalTheorem:
    """W = 1/2."""
    own, constants = t.codecs.RandK(count=2), problem.constants()
    lr = gradskip_plus_step(problem, t.codecs.Identity(), own, P)
    assert lr == pytest.approx(1 / (max(constants.smoothness) * (1 + (1 / P**2 - 1) / 3)))
    optimum = np.linalg.solve(problem.rows[0].mean(0), problem.rows[1].mean(0))
    ideal = np.array([slope(problem, i, optimum) for i in range(4)])
    first, rate = (
        optimum @ optimum + (lr / P) ** 2 * np.sum(ideal**2) / 4,
        1 - min(lr * min(constants.convexity), 1 - (1 - P**2) / 1.5),
    )
    return LocalTheorem(problem, t.GradSkipPlus(t.Full(), t.codecs.Identity(), own, probability=P), first, rate)


@pytest.mark.slow
def test_the_distance_falls_at_the_theorems_rate():
    plus_theorem(unlike()).check(rounds=400, seeds=60, every=40, fall=40)


@pytest.mark.slow
def test_random_places_reach_the_optimum_with_a_third_of_the_bytes_of_each_exchange():
    """Both ways: one of three numbers, the key and the number of steps down, one of three numbers up."""
    problem = unlike()
    codec, own = t.codecs.RandK(count=1, common=True), t.codecs.RandK(count=2)
    trace = t.run(t.GradSkipPlus(t.Full(), codec, own, probability=0.7), problem, rounds=20000, every=20000)
    optimum = np.linalg.solve(problem.rows[0].mean(0), problem.rows[1].mean(0))
    np.testing.assert_allclose(trace.x, optimum, rtol=0, atol=1e-8)
    totals = trace.ledger.totals()
    assert totals["bytes_up"] == 8 * totals["contacts"] and totals["bytes_down"] == (8 + 8 + 4) * totals["contacts"]


MISTAKES = {
    "linear": (lambda: t.GradSkipPlus(t.Full(), t.codecs.RandK(count=1)), "those of RandK do not: take a linear codec"),
    "biased": (lambda: t.GradSkipPlus(t.Full(), t.codecs.Identity(), t.codecs.Sign(), lr=0.1), "Sign is biased"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name):
    make, sentence = MISTAKES[name]
    with pytest.raises(t.UserError, match=sentence):
        t.run(make(), unlike(), rounds=1)
