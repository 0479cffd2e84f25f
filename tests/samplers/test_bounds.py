"""Importance sampling without gradients of all clients: AOCS from sums of numbers, and bounds known before a run."""

import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.federations import ENGINES, SHARES, VECTORS, chance, counted, four, play, subsets
from turnout.core.errors import UserError
from turnout.core.replies import Replies

NORMS = np.array([8.0, 1.0, 0.5, 3.0])


def algorithm_2(scores, size, iterations) -> tuple[np.ndarray, int]:
    """Return Chen et al.'s p and the number of iterations, in NumPy."""
    p, n = np.minimum(1, size * scores / scores.sum()), scores.size
    for j in range(iterations):
        free = p < 1
        factor = (size - n + free.sum()) / p[free].sum()
        p[free] = np.minimum(1, factor * p[free])
        if factor <= 1 + 1e-8:
            return p, j + 1
    return p, iterations


def after_answers(iterations, engine="compiled", **options):
    """Return the sampler's state after one round with exchanges, its rule, its p and the session."""
    sampler = t.Independent(t.Aocs(iterations), size=3.0)
    session = play(t.MbGd(sampler, lr=0.05), four(), 1, engine=engine, **options)
    state = session.progress.samplers[0]
    return state, np.asarray(t.Aocs(iterations).inclusion_probabilities(state, 3.0, four().population)), session


@pytest.mark.tiers(quick=[], slow=["compiled"])
@ENGINES
def test_aocs_is_algorithm_2_and_each_iteration_is_charged(engine):
    state, p, session = after_answers(4, engine)
    expected, iterations = algorithm_2(np.asarray(state.answers.norms), 3.0, 4)
    np.testing.assert_allclose(p, expected, rtol=1e-12)
    rows = counted(session)
    (calibrated,) = (row for path, row in rows.items() if "calibrated" in path)
    assert iterations > 1 and calibrated["exchanges"] == iterations
    assert (calibrated["contacts"], calibrated["arrivals"], calibrated["queries_total"]) == (4 * iterations, 4 * iterations, 0)
    assert (calibrated["bytes_down"], calibrated["bytes_up"]) == (8, 16)


@pytest.mark.longer
def test_enough_iterations_reach_the_optimal_probabilities_from_below():
    rule, sizes = t.Aocs(), []
    state = rule.observe_consulted(rule.start(four().population), jnp.asarray(NORMS), jnp.ones(4, bool))
    best = np.asarray(t.Optimal().inclusion_probabilities(state.answers, 3.0, four().population))
    for scale in (1.0, algorithm_2_scale(NORMS, 3.0, 1), algorithm_2_scale(NORMS, 3.0, 4)):
        p = np.asarray(rule.inclusion_probabilities(state._replace(scale=jnp.asarray(scale)), 3.0, four().population))
        assert np.all(p <= best + 1e-12)
        sizes.append(p.sum())
    np.testing.assert_allclose(p, best, rtol=1e-12)
    assert sizes[0] < sizes[1] < sizes[2]


def algorithm_2_scale(scores, size, iterations) -> float:
    """Return the product of the factors C_1 to C_j."""
    p, _ = algorithm_2(scores, size, iterations)
    free = int(np.argmin(scores))
    return p[free] / (size * scores[free] / scores.sum())


@pytest.mark.longer
@pytest.mark.parametrize("iterations", [1, 4])
def test_averages_are_unbiased_after_any_number_of_iterations(iterations):
    """By enumeration of all cohorts, each with its probability under independent draws."""
    p, _ = algorithm_2(NORMS, 3.0, iterations)
    rule = t.Aocs(iterations)
    state = rule.observe_consulted(rule.start(four().population), jnp.asarray(NORMS), jnp.ones(4, bool))
    state = state._replace(scale=jnp.asarray(algorithm_2_scale(NORMS, 3.0, iterations)))
    given = rule.inclusion_probabilities(state, 3.0, four().population)
    np.testing.assert_allclose(given, p, rtol=1e-12)
    mean = np.zeros(3)
    for which in subsets():
        cohort = t.Cohort.of(np.arange(4), given, four().population, selection="arbitrary", active=jnp.asarray(which))
        mean += chance(which, p) * np.asarray(Replies(jnp.asarray(VECTORS), cohort, cohort.active).average())
    np.testing.assert_allclose(mean, SHARES @ VECTORS, rtol=1e-10)


@pytest.mark.slow
def test_lost_answers_leave_probabilities_above_zero():
    faulty = play(t.MbGd(t.Independent(t.Aocs(), size=3.0), lr=0.05), four(), 20, faults=t.Faults(0.4, "skip"))
    state = faulty.progress.samplers[0]
    p = np.asarray(t.Aocs().inclusion_probabilities(state, 3.0, four().population))
    assert np.all((p > 0) & (p <= 1)) and float(state.scale) >= 1


@pytest.mark.slow
def test_clients_that_are_away_are_not_asked():
    sampler = t.AdaptiveSize(t.Independent(t.Aocs(2), size=3.0))
    away = t.Available(t.Independent(t.Aocs(2), size=2.0), probability=[0.5, 1.0, 0.5, 1.0])
    for drawn in (sampler, away):
        rows = counted(play(t.MbGd(drawn, lr=0.05), four(), 6))
        (calibrated,) = (row for path, row in rows.items() if "calibrated" in path)
        asked = rows["0.preview"]
        assert 0 < calibrated["contacts"] <= 2 * asked["contacts"] and (drawn is sampler or asked["contacts"] < 24)


def test_smoothness_minimises_the_bound_on_the_variance():
    problem = four()
    rule, smooth = t.BySmoothness().fit(problem), problem.constants().smoothness
    np.testing.assert_allclose(rule.scores(None, 2.0, problem.population), SHARES * smooth)
    p = np.asarray(rule.inclusion_probabilities(None, 2.0, problem.population))
    bound = lambda p: np.sum((1 / p - 1) * (SHARES * smooth) ** 2)  # noqa: E731
    others = np.random.default_rng(0).dirichlet(np.ones(4), 200) * 2
    others = others[np.all(others <= 1, axis=1)]
    assert p.sum() == pytest.approx(2) and all(bound(p) <= bound(other) for other in others)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [(t.BySmoothness(), "needs the L_i"), (t.BySmoothness([1.0, 2.0]), "4 numbers above 0")],
)
def test_bounds_must_be_known(rule, sentence):
    with pytest.raises(UserError, match=sentence):
        rule.bind(four().population)
