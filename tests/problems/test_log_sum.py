"""The log-sum penalty, the generator of similar quadratics and the non-convex logistic regression, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from tests.problems.test_problems import oracles
from turnout.data import quadratics
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.experiment.build import build
from turnout.experiment.config import Reader
from turnout.problems import Logistic, LogSum, NonconvexLogistic, Quadratic
from turnout.problems.storage.store import store

CLIENTS, WIDTH, ALPHA = 6, 8, 10.0


@pytest.fixture(scope="module")
def problem() -> LogSum:
    return LogSum.of(*quadratics(CLIENTS, WIDTH, parts=2, similarity=5.0, seed=1), alpha=ALPHA)


@pytest.fixture(scope="module")
def logistic() -> NonconvexLogistic:
    generator = np.random.default_rng(2)
    dataset = Dataset("made", generator.normal(size=(20, 4)), np.resize([-1.0, 1.0], 20))
    return NonconvexLogistic.of(dataset, Split(np.arange(20), np.array([0, 5, 9, 20])), mu=0.1, alpha=0.7)


def penalised(problem: LogSum, i: int, x):
    """f_i and its gradient."""
    diagonal, vector = problem.rows[0][i], problem.rows[1][i]
    value = diagonal @ x**2 / 2 - vector @ x + np.log(1 + ALPHA * np.abs(x)).sum()
    return value, diagonal * x - vector + ALPHA * np.sign(x) / (1 + ALPHA * np.abs(x))


def test_values_and_gradients_are_those_of_numpy_also_at_zero(problem):
    points = np.random.default_rng(0).normal(size=(CLIENTS, WIDTH))
    points[:, ::3] = 0
    values, (_, gradients), products = oracles(problem, jnp.asarray(points), range(CLIENTS))
    for i, x in enumerate(points):
        value, gradient = penalised(problem, i, x)
        assert values[i] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(gradients[i], gradient, rtol=1e-12)
        curvature = problem.rows[0][i] - np.where(x == 0, 0, (ALPHA / (1 + ALPHA * np.abs(x))) ** 2)
        np.testing.assert_allclose(products[i], curvature * (x + 1), rtol=1e-10)


def test_diagonals_are_the_matrices_that_they_stand_for(problem):
    diagonals, vectors = problem.rows
    full = Quadratic.of(np.stack([np.diag(diagonal) for diagonal in diagonals]), vectors)
    short, points = Quadratic.of(diagonals, vectors), np.random.default_rng(3).normal(size=(CLIENTS, WIDTH))
    for a, b in zip(*(jax.tree.leaves(oracles(q, jnp.asarray(points), range(CLIENTS))) for q in (full, short)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)
    for a, b in zip(full.constants(), short.constants(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.longer
def test_both_engines_go_down_to_a_stationary_point(problem):
    algorithm = t.MbGd(t.Full(), lr=0.01)
    compiled = t.run(algorithm, problem, rounds=400, metrics=("gradient",))
    nodes = t.run(algorithm, problem, rounds=3, metrics=("gradient",), engine="nodes")
    np.testing.assert_allclose(nodes.columns["gradient"], compiled.columns["gradient"][:4], rtol=1e-10)
    slopes = [penalised(problem, i, np.asarray(compiled.x))[1] for i in range(CLIENTS)]
    assert np.linalg.norm(np.mean(slopes, axis=0)) < 1e-9 * np.sqrt(compiled.columns["gradient"][0])


def test_constants_hold_between_points_of_equal_signs_and_are_reached(problem):
    generator, known = np.random.default_rng(4), problem.constants()
    for _ in range(50):
        signs = generator.choice([-1, 1], WIDTH)
        x, y = signs * generator.exponential(0.1, (2, WIDTH))
        for i in range(CLIENTS):
            change = np.linalg.norm(penalised(problem, i, x)[1] - penalised(problem, i, y)[1])
            assert change <= known.smoothness[i] * np.linalg.norm(x - y) * (1 + 1e-12)
    # One coordinate near 0 has the curvature 20 - alpha^2 = -80, far from 0 it has 90.
    sharp = LogSum.of(np.array([[20.0], [90.0]]), np.zeros((2, 1)), alpha=ALPHA)
    np.testing.assert_allclose(sharp.constants(), [[-80, -10], [80, 90]])
    near = [penalised(sharp, 0, np.array([x]))[1] for x in (1e-9, 1e-7)]
    assert abs(near[1] - near[0])[0] / 9.9e-8 == pytest.approx(80, rel=1e-4)


def test_the_recipe_clips_flattens_and_averages():
    """Differences between clients are those of means of b noises U[0, 18], of variance 27 / b, away from the clip at 100."""
    for parts in (1, 5):
        diagonals, vectors = quadratics(100, 1000, parts, flat=10, seed=parts)
        assert np.all(diagonals[:, -10:] == 1e-3)
        steep = diagonals[:, :-10]
        assert steep.min() >= 1 and steep.max() <= 100 + 1e-12
        # A centre within [0, 10]^d, as a mean of the b_ij weighted by A_ij.
        assert np.all((0 <= vectors) & (vectors <= 10 * diagonals * (1 + 1e-12)))
        inside = steep[:, steep.mean(axis=0) < 80]
        # The variance of a sample variance of 100 near-normal values is at most 2 / 99 of its square.
        assert inside.var(axis=0, ddof=1).mean() == pytest.approx(27 / parts, rel=5 * np.sqrt(2 / 99 / inside.shape[1]))


def test_one_part_holds_its_matrix_and_its_centre():
    diagonals, vectors = quadratics(200, 50, parts=1, seed=8)
    centres = vectors / diagonals
    # Uniform on [0, 10]: mean 5 and variance 100 / 12, with their standard errors over 10,000 draws.
    assert abs(centres.mean() - 5) < 5 * np.sqrt(100 / 12 / 1e4)
    assert abs(centres.var() - 100 / 12) < 5 * np.sqrt((10**4 / 180) / 1e4)


@settings(max_examples=60)
@given(
    clients=st.integers(3, 12),
    dimension=st.integers(1, 20),
    parts=st.integers(1, 6),
    similarity=st.floats(1e-3, 30.0),
    flat=st.integers(0, 3),
    seed=st.integers(0, 2**32),
)
def test_calibrated_quadratics_have_the_similarity_or_a_sentence_says_why_not(clients, dimension, parts, similarity, flat, seed):
    try:
        diagonals, vectors = quadratics(clients, dimension + flat, parts, similarity, flat=flat, seed=seed)
    except t.UserError as error:
        assert "spreads eigenvalues beyond [1, 100]" in str(error)
        return
    matrices = np.stack([np.diag(diagonal) for diagonal in diagonals])
    apart = matrices - matrices.mean(axis=0)
    assert np.linalg.eigvalsh(np.mean(apart @ apart, axis=0))[-1] == pytest.approx(similarity**2, rel=1e-6)
    assert np.linalg.norm(apart[0], 2) == pytest.approx(similarity, rel=1e-6)
    steep = diagonals[:, :dimension]
    assert steep.min() >= 1 - 1e-9 and steep.max() <= 100 + 1e-9
    assert np.all(np.isfinite(vectors))


@settings(max_examples=40)
@given(
    clients=st.integers(3, 12),
    dimension=st.integers(1, 20),
    similarity=st.floats(1e-3, 300.0),
    curvature=st.floats(1e-4, 10.0),
    seed=st.integers(0, 2**32),
)
def test_quadratics_with_a_curvature_have_it_in_the_mean_and_the_similarity_about_it(
    clients, dimension, similarity, curvature, seed
):
    diagonals, _ = quadratics(clients, dimension, similarity=similarity, curvature=curvature, seed=seed)
    scale = similarity + curvature
    expected = curvature + 9 * curvature * np.arange(dimension) / max(1, dimension - 1)
    np.testing.assert_allclose(diagonals.mean(axis=0), expected, atol=1e-9 * scale)
    apart = diagonals - expected
    assert np.sqrt(np.max(np.mean(apart**2, axis=0))) == pytest.approx(similarity, rel=1e-6, abs=1e-9 * scale)
    assert np.max(np.abs(apart[0])) == pytest.approx(similarity, rel=1e-6, abs=1e-9 * scale)


def test_a_share_of_the_coordinates_has_the_curvature_and_the_others_the_bounds():
    options = {"similarity": 5.0, "curvature": 0.1, "shallow": 0.25}
    diagonals, _ = quadratics(10, 8, **options, seed=4)
    steep, shallow = diagonals[:, :6], diagonals[:, 6:]
    assert steep.min() >= 1 - 1e-9 and steep.max() <= 100 + 1e-9
    np.testing.assert_allclose(shallow.mean(axis=0), [0.1, 1.0], atol=1e-9)
    apart = diagonals - diagonals.mean(axis=0)
    assert np.sqrt(np.max(np.mean(apart**2, axis=0))) == pytest.approx(5, rel=1e-6)
    assert np.max(np.abs(apart[0])) == pytest.approx(5, rel=1e-6)
    below, _ = quadratics(10, 10, **options, flat=2, seed=4)
    np.testing.assert_allclose(below[:, 6:8].mean(axis=0), [0.1, 1.0], atol=1e-9)
    np.testing.assert_array_equal(below[:, 8:], 1e-3)


def test_the_papers_size_is_held_in_two_numbers_a_client_and_coordinate():
    diagonals, vectors = quadratics(100, 1000, similarity=5.0)
    apart = diagonals - diagonals.mean(axis=0)
    assert np.sqrt(np.max(np.mean(apart**2, axis=0))) == pytest.approx(5, abs=1e-6)
    assert np.max(np.abs(apart[0])) == pytest.approx(5, abs=1e-6)
    assert np.max(diagonals) == pytest.approx(100, abs=1e-9)
    held = store(LogSum.of(diagonals, vectors))
    assert sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(held)) < 2.01 * diagonals.nbytes


def test_the_non_convex_regulariser_against_numpy(logistic):
    x = np.random.default_rng(5).normal(size=(3, 4))
    values, (_, gradients), _ = oracles(logistic, jnp.asarray(x), range(3))
    features, signs = logistic.rows
    for i, (a, b) in enumerate(((0, 5), (5, 9), (9, 20))):
        margins = signs[a:b] * (features[a:b] @ x[i])
        ratio = x[i] ** 2 / (1 + x[i] ** 2)
        value = np.log1p(np.exp(-margins)).mean() + 0.05 * x[i] @ x[i] + 0.7 * ratio.sum()
        slope = -(signs[a:b] / (1 + np.exp(margins))) @ features[a:b] / (b - a) + 0.1 * x[i] + 1.4 * x[i] / (1 + x[i] ** 2) ** 2
        assert values[i] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(gradients[i], slope, rtol=1e-10)


def test_the_regularisers_curvature_is_that_of_its_constants(logistic):
    """Second differences of u^2 / (1 + u^2) over a fine grid have the extremes -1/2 and 2."""
    u = np.linspace(-4, 4, 80_001)
    curvature = np.diff(u**2 / (1 + u**2), 2) / 1e-8
    np.testing.assert_allclose([curvature.min(), curvature.max()], [-0.5, 2], atol=1e-4)
    plain = Logistic(logistic.rows, logistic.offsets, logistic.population, mu=0.1)
    np.testing.assert_allclose(logistic.constants().convexity, plain.constants().convexity - 0.35)
    np.testing.assert_allclose(logistic.constants().smoothness, plain.constants().smoothness + 1.4)


HEAD = '[sampler]\nkind = "nice"\nsize = 2\n[algorithm]\nkind = "mbgd"\nlr = 0.01\n'
IID = '[split]\nkind = "iid"\nclients = 3\n'
LOG_SUM = HEAD + '[problem]\nkind = "log-sum"\nclients = 4\ndimension = 6\nsimilarity = 5.0\n'


def read(text: str):
    import tomllib

    return Reader("made.toml", text, tomllib.loads(text)).experiment("made")


def test_a_configuration_generates_its_quadratics():
    experiment = read(LOG_SUM)
    built = build(experiment, None)
    expected = quadratics(4, 6, similarity=5.0)
    np.testing.assert_array_equal(built.problem.rows, expected)
    assert isinstance(built.problem, LogSum) and built.problem.alpha == 10 and built.split.clients == 4
    assert read(experiment.to_toml()) == experiment


def test_alpha_makes_a_configured_logistic_regression_non_convex():
    text = HEAD + IID + '[problem]\nkind = "logistic"\ndata = "breast_cancer"\nmu = 0.0\nalpha = 0.2\n'
    problem = build(read(text), None).problem
    assert isinstance(problem, NonconvexLogistic) and (problem.mu, problem.alpha) == (0, 0.2)
    assert type(build(read(text.replace("0.2", "0.0")), None).problem) is Logistic


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LOG_SUM + '[split]\nkind = "natural"\n', "line 12: split: problem kind 'log-sum' has no rows to split"),
        (LOG_SUM + "parts = 0\n", "at least 1"),
        (LOG_SUM.replace("5.0", "-5.0"), "greater than 0"),
        (LOG_SUM + 'data = "duke"\n', "unknown key 'data'"),
        (HEAD + '[problem]\nkind = "logistic"\ndata = "duke"\n', r"table \[split\] is missing"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(text, sentence):
    with pytest.raises(t.UserError, match=sentence):
        read(text)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"clients": 0}, "need a client"),
        ({"flat": 6}, "0 <= flat < dimension"),
        ({"clients": 2, "similarity": 1.0}, "need 3 clients"),
        ({"similarity": 0.0}, "a similarity above 0"),
        ({"similarity": 90.0}, "lower it"),
        ({"curvature": 1.0}, "need a similarity too"),
        ({"similarity": 1.0, "shallow": 0.5}, "give curvature too"),
    ],
)
def test_impossible_quadratics_are_one_sentence(options, sentence):
    with pytest.raises(t.UserError, match=sentence):
        quadratics(**{"clients": 5, "dimension": 6, **options})


def test_forms_of_another_shape_are_one_sentence():
    with pytest.raises(t.UserError, match=r"give \[n, d, d\], or \[n, d\]"):
        LogSum.of(np.ones((2, 3, 4)), np.ones((2, 3)))
    with pytest.raises(t.UserError, match="alpha must be at least 0"):
        LogSum.of(np.ones((2, 3)), np.ones((2, 3)), alpha=-1.0)
    with pytest.raises(t.UserError, match="optimum of LogSum is not known"):
        t.run(t.MbGd(t.Full(), lr=0.1), LogSum.of(np.ones((2, 3)), np.ones((2, 3))), rounds=1, metrics=("gap",))
