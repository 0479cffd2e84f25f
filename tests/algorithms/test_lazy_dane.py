"""Lazy DANE that measures lambda: a plain program in one dimension, the expectation of what it measures, and mistakes."""

import itertools

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.baselines import Exact
from turnout.algorithms.icgm_adaptive import DECAY
from turnout.core.seeds import Seeds

CURVATURES, CENTRES, SIZE, SEED = np.array([2.0, 3.0, 4.5, 1.5, 7.0]), np.array([1.0, -2.0, 0.5, 3.0, -1.0]), 2, 4
CLIENTS = len(CURVATURES)


def problem() -> t.Quadratic:
    return t.Quadratic.of(CURVATURES[:, None, None], (CURVATURES * CENTRES)[:, None])


def program(rounds: int) -> float:
    """x of a NumPy program; a sketch of one number has its length, so that delta is measured without error."""
    slope = lambda x: CURVATURES * (x - CENTRES)  # noqa: E731
    x = old = square = weight = 0.0
    each, points, seen, last = np.zeros(CLIENTS), np.zeros(CLIENTS), np.zeros(CLIENTS, bool), None
    seeds, population = Seeds.of(SEED), t.Population(CLIENTS)
    spread = 1 + (CLIENTS - SIZE) / (CLIENTS - 1) / SIZE
    for number in range(rounds):
        drawn = np.asarray(t.Nice(SIZE).draw(None, seeds.draw(number + 1, 0), population).ids)
        lam = (2 + np.sqrt(CLIENTS / SIZE)) * np.sqrt(square / weight) if weight else CURVATURES.max()
        pull = slope(x) if last is None else each[seen].mean() + slope(x) - slope(points[seen].mean())
        if last is not None and last[0]:
            square = DECAY * square + np.mean((CURVATURES * last[0] - last[1])[drawn] ** 2) / spread / last[0] ** 2
            weight = DECAY * weight + 1
        reach = x - points[seen].mean() if seen.any() else 0.0
        last = reach, np.mean(CURVATURES[drawn] * reach)
        each[drawn], points[drawn], seen[drawn] = slope(x)[drawn], x, True
        x, old = x + 0.3 * (x - old) - np.mean(pull[drawn] / (CURVATURES[drawn] + lam)), x
    return x


@pytest.mark.tiers(quick=[], longer=["4"], slow=["12"])
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 12])
def test_a_run_is_its_plain_program_lambda_included(rounds):
    with jax.enable_x64(True):
        trace = t.run(t.LazyDane(t.Nice(SIZE), Exact()), problem(), rounds=rounds, seed=SEED)
    np.testing.assert_allclose(np.asarray(trace.x), program(rounds), rtol=1e-9)
    totals = trace.ledger.totals()
    assert (totals["draws_random"], totals["draws_arbitrary"], totals["draws_delegate"]) == (rounds, 0, 0)
    assert totals["vectors_down"] == 5 * SIZE * rounds and totals["queries_slowest"] == (4 + 2) * rounds


@pytest.mark.parametrize("size", range(1, CLIENTS + 1))
def test_what_it_measures_is_delta_on_average(size):
    """The mean over all cohorts S' before and all clients i of |a_i - mean_{S'} a|^2 is `spread` delta^2."""
    delta = np.std(CURVATURES)
    gaps = [(CURVATURES - CURVATURES[list(one)].mean()) ** 2 for one in itertools.combinations(range(CLIENTS), size)]
    bound = t.LazyDane(t.Nice(size), Exact()).bind(problem())
    assert np.mean(gaps) == pytest.approx(bound.spread * delta**2, rel=1e-12)
    assert bound.factor == 2 + np.sqrt(CLIENTS / size) and bound.largest == CURVATURES.max()


@pytest.mark.longer
def test_it_goes_to_the_optimum_of_nonconvex_clients():
    matrices = np.array([[[-1.0]], [[2.0]], [[4.0]]])
    vectors = np.array([[1.0], [0.0], [5.0]])
    trace = t.run(t.LazyDane(t.Nice(1)), t.Quadratic.of(matrices, vectors), rounds=400, seed=1)
    np.testing.assert_allclose(trace.x, [6 / 5], atol=1e-5)


def flat() -> t.Problem:
    """One whose clients' smoothness is not known."""
    return t.Problem(rows=np.zeros(4), offsets=np.arange(5), population=t.Population(count=4))


@pytest.mark.parametrize(
    ("options", "on", "words"),
    [
        ({"lam": 0.0}, problem, "lam must be greater than 0"),
        ({"momentum": 1.0}, problem, "momentum must be less than 1"),
        ({}, flat, "needs lam: Problem does not know"),
    ],
)
def test_a_mistake_is_one_sentence(options, on, words):
    with pytest.raises(t.UserError, match=words):
        t.LazyDane(t.Nice(2), Exact(), **options).bind(on())
