"""Measured constants: exact ones against singular values, local ones against those and against NumPy's Hessians."""

from dataclasses import fields, replace
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from tests.helpers.examples import logistic, network
from turnout.data import IidSplit, load, quadratics
from turnout.problems import LogSum, NonconvexLogistic, Quadratic
from turnout.problems.base import Population
from turnout.theory import dissimilarity
from turnout.theory.dissimilarity import along, at, average_dissimilarity, exact, measured

WEIGHTS = np.array([0.4, 0.1, 0.2, 0.1, 0.2])


def fields_of(record) -> dict:
    """The fields of a record, without what it has computed since it was made."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def singular(matrices, weights, delegate: int) -> list:
    """The six constants of symmetric H_i; delta is the norm of the sqrt(lambda_i) (H_i - H) on top of each other."""
    mean = np.tensordot(weights, matrices, 1)
    apart = matrices - mean
    stacked = np.vstack([np.sqrt(weight) * a for weight, a in zip(weights, apart, strict=True)])
    gaps, smooth = ([np.linalg.norm(a, 2) for a in parts] for parts in (apart, matrices))
    return [np.linalg.norm(stacked, 2), gaps[delegate], max(gaps), smooth[delegate], max(smooth), np.linalg.norm(mean, 2)]


@pytest.fixture(scope="module")
def full() -> Quadratic:
    """Five clients with unequal weights, and eigenvalues of both signs."""
    generator = np.random.default_rng(0)
    matrices = generator.normal(size=(5, 6, 6))
    return Quadratic.of(matrices + np.swapaxes(matrices, 1, 2), generator.normal(size=(5, 6)), WEIGHTS)


@pytest.fixture(scope="module")
def short() -> Quadratic:
    """The same with diagonal matrices, in more coordinates."""
    return Quadratic.of(*quadratics(5, 40, seed=3), WEIGHTS)


def dense(problem: Quadratic):
    matrices = problem.rows[0]
    return matrices if matrices.ndim == 3 else np.stack([np.diag(diagonal) for diagonal in matrices])


@pytest.fixture(params=["matrices", "products"])
def hessians_kept(request, monkeypatch):
    """Both ways to find the norms of Hessians."""
    if request.param == "products":
        monkeypatch.setattr(dissimilarity, "MATRICES", 0)


@pytest.mark.usefixtures("hessians_kept")
@pytest.mark.parametrize("kind", ["full", "short"])
def test_exact_constants_are_singular_values_and_hessians_give_them_anywhere(kind, request):
    problem = request.getfixturevalue(kind)
    for delegate in (0, 3):
        expected = singular(dense(problem), WEIGHTS, delegate)
        np.testing.assert_allclose(exact(problem, delegate), expected, rtol=1e-10)
    assert measured(problem) == exact(problem)
    x = np.random.default_rng(1).normal(size=dense(problem).shape[-1])
    local = at(problem, x, delegate=3)
    np.testing.assert_allclose(local, expected, rtol=1e-7)
    assert np.all(np.asarray(local) <= np.asarray(expected) * (1 + 1e-12))


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32), st.booleans())
def test_exact_constants_of_any_quadratics(clients, width, seed, diagonal):
    generator = np.random.default_rng(seed)
    matrices = generator.normal(size=(clients, width) if diagonal else (clients, width, width))
    matrices = matrices if diagonal else matrices + np.swapaxes(matrices, 1, 2)
    weights = generator.dirichlet(np.ones(clients))
    problem = Quadratic.of(matrices, np.zeros((clients, width)), weights)
    delegate = int(generator.integers(clients))
    np.testing.assert_allclose(exact(problem, delegate), singular(dense(problem), weights, delegate), rtol=1e-7, atol=1e-12)


@pytest.mark.usefixtures("hessians_kept")
def test_clients_who_agree_have_no_dissimilarity(short):
    """Up to the root of the rounding of H_i^2."""
    alike = Quadratic.of(np.tile(short.rows[0][:1], (3, 1)), short.rows[1][:3])
    for found in (exact(alike), at(alike, np.ones(40))):
        np.testing.assert_allclose(found[:3], 0, atol=1e-7 * short.rows[0].max())
        np.testing.assert_allclose(found[3:], short.rows[0][0].max(), rtol=1e-9)


def test_calibrated_quadratics_measure_what_was_asked_for():
    problem = LogSum.of(*quadratics(100, 1000, similarity=5.0))
    found = exact(problem)
    assert found.delta == pytest.approx(5, abs=1e-6) and found.delta_one == pytest.approx(5, abs=1e-6)
    assert found.delta_max > 5 and found.smooth_f <= found.smooth_max == pytest.approx(100)


def test_the_recipe_of_the_paper_does_not_give_the_five_of_its_text():
    """Means of 5 noises of standard deviation 18 / sqrt 12 give less than 5 and single noises give more, in 1000 coordinates."""
    mixed, single = (exact(LogSum.of(*quadratics(100, 1000, parts))) for parts in (5, 1))
    assert 18 / np.sqrt(60) < mixed.delta < 3.2 < 5 < 18 / np.sqrt(12) < single.delta
    # No noise is further than 9 from its mean, up to the error of the mean over 100 clients.
    assert mixed.delta_one < single.delta_one < 9 + 5 * 18 / np.sqrt(1200)


def hessians(problem, x) -> np.ndarray:
    """H_i of logistic regression [n, d, d], in NumPy."""
    features, labels = problem.rows
    p = 1 / (1 + np.exp(-features @ x))
    bounds = pairwise(problem.offsets.tolist())
    parts = [features[a:b].T @ (features[a:b] * (p * (1 - p))[a:b, None]) / (b - a) for a, b in bounds]
    extra = np.full(x.size, problem.mu)
    if isinstance(problem, NonconvexLogistic):
        extra = extra + problem.alpha * (2 - 6 * x**2) / (1 + x**2) ** 3
    return np.stack(parts) + np.diag(extra)


@pytest.fixture(scope="module")
def nonconvex() -> NonconvexLogistic:
    """Clients of unequal sizes, stored in tiles, with unequal weights."""
    return NonconvexLogistic(**fields_of(logistic()), alpha=0.6)


@pytest.mark.tiers(longer=["matrices"])
@pytest.mark.usefixtures("hessians_kept")
def test_local_constants_of_logistic_regression(nonconvex):
    x = np.random.default_rng(2).normal(size=5)
    weights = np.asarray(nonconvex.population.weights)
    np.testing.assert_allclose(at(nonconvex, x, 4), singular(hessians(nonconvex, x), weights, 4), rtol=1e-6)


def test_where_nothing_is_exact_the_start_is_measured(nonconvex):
    weights = np.asarray(nonconvex.population.weights)
    expected = singular(hessians(nonconvex, np.zeros(5)), weights, 0)
    np.testing.assert_allclose(measured(nonconvex), expected, rtol=1e-10)
    np.testing.assert_allclose(average_dissimilarity(nonconvex), expected[0], rtol=1e-7)


def test_the_average_dissimilarity_alone_is_that_of_all_constants(full, nonconvex):
    x = np.random.default_rng(7).normal(size=5)
    assert average_dissimilarity(full) == exact(full).delta
    np.testing.assert_allclose(average_dissimilarity(nonconvex, x), at(nonconvex, x).delta, rtol=1e-7)


def gradients(problem: Quadratic, x) -> np.ndarray:
    """grad f_i(x) of quadratics [n, d]."""
    return dense(problem) @ x - problem.rows[1]


def descent(problem: Quadratic, lr: float, steps: int) -> list[np.ndarray]:
    points = [np.random.default_rng(5).normal(size=problem.rows[1].shape[-1])]
    for _ in range(steps):
        points.append(points[-1] - lr * WEIGHTS @ gradients(problem, points[-1]))
    return points


@pytest.mark.parametrize(("kind", "delegate"), [("full", 1), ("short", 2)])
def test_constants_along_a_run_are_ratios_below_the_exact_ones(kind, delegate, request):
    problem = request.getfixturevalue(kind)
    points = descent(problem, 0.01, 12)
    found, bound = along(problem, points, delegate), exact(problem, delegate)
    assert len(found) == 12 and np.all(np.array(found) <= np.array(bound)[None] * (1 + 1e-10))
    for step, (x, y) in zip(found, pairwise(points), strict=True):
        changes = gradients(problem, y) - gradients(problem, x)
        moved, total = np.sum((y - x) ** 2), WEIGHTS @ changes
        # E|X - EX|^2 = E|X|^2 - |EX|^2, as below equation (3) of the paper.
        variance = WEIGHTS @ np.sum(changes**2, axis=1) - total @ total
        assert step.delta**2 == pytest.approx(variance / moved, rel=1e-8)
        assert step.smooth_one**2 == pytest.approx(np.sum(changes[delegate] ** 2) / moved, rel=1e-9)
        assert step.delta_one**2 == pytest.approx(np.sum((changes[delegate] - total) ** 2) / moved, rel=1e-8)
        assert step.smooth_f**2 == pytest.approx(total @ total / moved, rel=1e-8)


def test_a_step_along_the_worst_direction_reaches_the_exact_constants(full):
    matrices = dense(full)
    mean = np.tensordot(WEIGHTS, matrices, 1)
    apart = matrices - mean
    # The forms whose top directions are the worst ones for delta, Delta_1, L_1 and L_f.
    squares = [np.tensordot(WEIGHTS, apart @ apart, 1), apart[0] @ apart[0], matrices[0] @ matrices[0], mean @ mean]
    steps = [np.linalg.eigh(square)[1][:, -1] for square in squares]
    found, bound = along(full, [np.zeros(6), *np.cumsum(steps, axis=0)]), exact(full)
    reached = [found[0].delta, found[1].delta_one, found[2].smooth_one, found[3].smooth_f]
    np.testing.assert_allclose(reached, [bound.delta, bound.delta_one, bound.smooth_one, bound.smooth_f], rtol=1e-9)


def test_the_penalty_leaves_dissimilarity_alone_and_bends_only_within_its_constants(short):
    """Along points of equal signs: across 0 the gradient jumps, and no constant L is large enough."""
    penalised = LogSum(**fields_of(short), alpha=10.0)
    signs = np.random.default_rng(6).choice([-1, 1], 40)
    points = list(signs * np.random.default_rng(7).exponential(0.1, (6, 40)))
    found, bound = along(penalised, points), exact(penalised)
    assert bound[:3] == exact(short)[:3]
    np.testing.assert_allclose([a.delta for a in found], [a.delta for a in along(short, points)], rtol=1e-8)
    assert np.all(np.array(found) <= np.array(bound)[None] * (1 + 1e-10))
    (crossing,) = along(penalised, [np.full(40, -1e-3), np.full(40, 1e-3)])
    assert crossing.smooth_one > bound.smooth_one


@pytest.mark.longer
def test_nested_parameters_are_one_vector():
    problem = network()
    x = problem.start(jax.random.key(1))
    local = at(problem, x)
    direction = jax.tree.map(lambda leaf: np.random.default_rng(8).normal(size=leaf.shape), x)
    (near,) = along(problem, [x, jax.tree.map(lambda a, v: a + 1e-5 * v, x, direction)])
    assert np.all(np.array(near) <= np.array(local) * (1 + 1e-3)) and np.all(np.array(near) > 0)


def test_a_point_that_stays_has_no_ratio(short):
    points = [np.zeros(40), np.zeros(40), np.ones(40)]
    stays, moves = along(short, points)
    assert np.isnan(stays).all() and np.array(moves).min() > 0


@pytest.mark.usefixtures("hessians_kept")
def test_one_coordinate_and_one_client():
    problem = replace(Quadratic.of(np.array([[-3.0]]), np.zeros((1, 1))), population=Population(count=1))
    np.testing.assert_array_equal(exact(problem), [0, 0, 0, 3, 3, 3])
    np.testing.assert_allclose(at(problem, jnp.ones(1)), [0, 0, 0, 3, 3, 3], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda q: exact(q, 5), "delegate must be from 0 to 4"),
        (lambda q: at(q, np.zeros(6), -1), "delegate must be from 0 to 4"),
        (lambda q: along(q, [np.zeros(6)]), "two points or more, but got 1"),
        (lambda q: at(q, np.zeros(7)), "parameters of Quadratic have the shapes"),
        (lambda q: along(q, [np.zeros(6), {"weight": np.zeros(6)}]), "parameters of Quadratic have the shapes"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(full, call, sentence):
    with pytest.raises(t.UserError, match=sentence):
        call(full)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least", "most"), [("mushrooms", 0.0, 0.05), ("duke", 0.5, 1.0)])
def test_clients_are_alike_on_mushrooms_and_not_on_duke(real_data, name, least, most):
    """Section 7 of Cost-aware client selection: delta against L_1, ten clients of shuffled rows, at the start."""
    data = load(name, real_data)
    split = IidSplit(clients=10).split(data)
    problem = NonconvexLogistic.of(data, split, mu=0.0, alpha=0.1, weights=split.sizes)
    found = measured(problem)
    assert least * found.smooth_one < found.delta < most * found.smooth_one
