"""I-CGM that measures lam: against a plain program, its scaling, what it is charged, and what its numbers can be at most."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from tests.helpers.federations import SHARES, play
from turnout.accounting.prices import Selection
from turnout.algorithms.icgm_adaptive import DECAY, SKETCH_SIZE, prox_scale, sketch, updated_lam
from turnout.core.seeds import Seeds
from turnout.runs.session import Session
from turnout.runs.setup import scope
from turnout.runs.sweep import Cell
from turnout.theory.dissimilarity import Dissimilarity, exact
from turnout.theory.selection import Case, practical

SEED, SIZE, BETA = 3, 2, 0.4
ALGORITHM = t.Icgm(t.Nice(SIZE), t.RgSaga(beta=BETA, passes=1))


def alike(factor=1.0) -> t.Problem:
    """Four clients with unequal weights whose Hessians differ little; all f_i times `factor`."""
    made = t.Quadratic.random(4, 3, 1.0, 6.0, seed=5)
    return t.Quadratic.of(
        factor * (0.7 * made.rows[0].mean(0) + 0.3 * made.rows[0]), factor * np.array(made.rows[1]), weights=SHARES
    )


def gradients(problem, x) -> np.ndarray:
    return problem.rows[0] @ x - problem.rows[1]


def signs(number) -> np.ndarray:
    """Those of the sketches of a round."""
    seed = jax.random.bits(jax.random.fold_in(Seeds.of(SEED).exchange(number, 0), 4), (), "uint32")
    return np.asarray(jax.random.rademacher(jax.random.key(seed), (SKETCH_SIZE, 3), float))


@pytest.mark.slow
def test_a_run_is_its_textbook():
    """lam^2 is a discounted mean of squares, begun with the largest L_i, and p = lam / (lam + L_1)."""
    problem = alike()
    session = play(ALGORITHM, problem, 8)
    eta = np.linalg.norm(problem.rows[0][0], 2)
    lam = max(np.linalg.norm(matrix, 2) for matrix in problem.rows[0])
    x = np.zeros(3)
    kept = gradients(problem, x)
    b = g = SHARES @ kept
    steps = []
    for number in range(1, 9):
        chosen = jax.random.split(jax.random.fold_in(Seeds.of(SEED).exchange(number, 0), 0))[0]
        steps.append(int(jax.random.geometric(chosen, lam / (lam + eta))))
        y, first = x, gradients(problem, x)[0]
        for _ in range(steps[-1]):
            y = (eta * y + lam * x + first - g - gradients(problem, y)[0]) / (lam + eta)
        cohort = np.asarray(t.Nice(SIZE).draw(None, Seeds.of(SEED).draw(number, 1), problem.population).ids)
        new, old, rates = gradients(problem, y), gradients(problem, x), SHARES[cohort] * 4 / SIZE
        moved = rates @ (new - old)[cohort]
        g = (1 - BETA) * g + BETA * (b + rates @ (old - kept)[cohort]) + moved
        b = b + SHARES[cohort] @ (old - kept)[cohort]
        kept[cohort] = old[cohort]
        apart = signs(number) @ (moved - (new - old)[0])
        seen = prox_scale(4, SIZE) ** 2 * np.mean(apart**2) / np.sum((y - x) ** 2)
        lam, x = np.sqrt(DECAY * lam**2 + (1 - DECAY) * seen), y
    assert len(set(steps)) > 2
    np.testing.assert_allclose(session.trace.x, x, atol=1e-10)
    np.testing.assert_allclose(session.progress.server.lam, lam)
    assert session.trace.ledger.totals()["queries_slowest"] == 1 + sum(steps) + 8 + 2 * 8


@pytest.mark.slow
def test_it_is_charged_for_the_numbers_it_sends():
    """lam and a seed down beside g, 8 numbers up beside x."""
    sites = play(ALGORITHM, alike(), 8).trace.ledger.sites
    site = next(site for site in sites if site.method == "solve")
    assert (site.vectors_down, site.vectors_up) == (1, 1)
    assert (site.bytes_down, site.bytes_up) == (3 * 8 + 8 + 4, 3 * 8 + SKETCH_SIZE * 8)


@pytest.mark.longer
def test_it_needs_no_constant_and_no_unit():
    """It finds the optimum, and of 8 f in the place of f by the same iterates with 8 times the lam."""
    runs = [play(ALGORITHM, alike(factor), 150) for factor in (1.0, 8.0)]
    np.testing.assert_allclose(runs[1].trace.x, runs[0].trace.x, rtol=1e-12)
    np.testing.assert_allclose(runs[1].progress.server.lam, 8 * runs[0].progress.server.lam)
    matrix, vector = (np.tensordot(SHARES, part, 1) for part in alike().rows)
    np.testing.assert_allclose(runs[0].trace.x, np.linalg.solve(matrix, vector), atol=1e-6)


@pytest.mark.slow
def test_a_sweeps_cell_is_the_single_run():
    """Hyper-parameters that are given can be swept all the same."""
    cells = [Cell({"damping": damping}, SEED) for damping in (0.9, 1.0)]
    swept = Session(ALGORITHM, alike(), seeds=Seeds.of(0), rounds=8, cells=cells).run()
    np.testing.assert_allclose(swept.traces[1].x, play(ALGORITHM, alike(), 8).trace.x, atol=1e-12)
    assert np.abs(swept.traces[0].x - swept.traces[1].x).max() > 1e-3


@pytest.mark.slow
def test_of_a_random_delegate_a_step_renews_lambda_and_a_lost_reply_does_not():
    algorithm = t.Icgm(t.Nice(SIZE), t.Sarah(), delegate=t.Nice(1))
    session = Session(algorithm, alike(), seeds=Seeds.of(SEED), rounds=8, faults=t.Faults(0.5, "skip"), engine="nodes")
    seen = [(np.zeros(3), np.linalg.norm(alike().rows[0], 2, axis=(1, 2)).max())]
    with scope(session.precision):
        for limit in range(9):
            session.progress, _ = session.engine.advance(session.progress, limit, 1)
            seen.append((np.array(session.progress.server.x), float(session.progress.server.lam)))
    moved, renewed = (np.array([np.any(a[k] != b[k]) for a, b in itertools.pairwise(seen[1:])]) for k in (0, 1))
    np.testing.assert_allclose(seen[1][1], seen[0][1])
    assert 1 <= moved.sum() <= 7
    np.testing.assert_array_equal(moved, renewed)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=6), st.integers(1, 2), st.integers(0, 999))
def test_the_mean_square_over_cohorts_is_at_most_that_of_the_constants(eigenvalues, size, seed):
    """Delta_1^2 + delta_m^2 of `theory.dissimilarity`, for any step; and the scale then makes the paper's lambda of it."""
    n, generator = len(eigenvalues), np.random.default_rng(seed)
    diagonals = np.array(eigenvalues)[:, None] * generator.uniform(0.5, 1, (n, 2))
    known = exact(t.Quadratic.of(diagonals, np.zeros((n, 2))))
    step = generator.normal(size=2)
    apart = [diagonals[list(cohort)].mean(0) * step - diagonals[0] * step for cohort in itertools.combinations(range(n), size)]
    deviation = known.delta * np.sqrt((n - size) / (n - 1) / size)
    mean = np.mean(np.sum(np.square(apart), axis=1)) / np.sum(step**2)
    assert mean <= (known.delta_one**2 + deviation**2) * (1 + 1e-9)


@pytest.mark.parametrize(("clients", "size"), [(100, 10), (10, 1), (5, 5)])
def test_the_scale_makes_the_papers_lambda_of_clients_like_each_other(clients, size):
    case = Case(Dissimilarity(2.0, 2.0, 2.0, 9.0, 9.0, 9.0), clients, size, gap=1.0, epsilon=1.0, price=Selection())
    seen = np.sqrt(2.0**2 + case.deviation**2)
    np.testing.assert_allclose(prox_scale(clients, size) * seen, practical(case).lam)


def test_a_sketch_knows_lengths_on_average():
    """Of each number the mean of the squares over the signs is 4^0 + 4^1 + 4^2; the sign of each entry is seen in it."""
    tree = {"a": jnp.array([1.0, 2.0]), "b": jnp.array([[4.0]])}
    sketches = jax.vmap(lambda seed: sketch(seed, tree))(jnp.arange(3000, dtype="uint32"))
    assert set(np.unique(sketches)) == {-7, -5, -3, -1, 1, 3, 5, 7}
    # The squares are at most 49, so that by Hoeffding's inequality a mean of 24000 is within 1 of 21, but for a chance of 5e-9.
    np.testing.assert_allclose(np.mean(np.square(sketches)), 21, atol=1)
    seed, twice = jnp.uint32(7), jax.tree.map(lambda leaf: 2 * leaf, tree)
    np.testing.assert_allclose(sketch(seed, twice), 2 * sketch(seed, tree))


def test_the_same_difference_again_and_again_makes_lambda_and_without_a_step_nothing_does():
    lam, apart = jnp.asarray(100.0), jnp.full(SKETCH_SIZE, 3.0)
    assert updated_lam(lam, 2.0, apart, jnp.asarray(0.0)) == lam
    for step in np.arange(1.0, 100.0):
        lam = updated_lam(lam, 2.0, apart * step, jnp.asarray(step))
    np.testing.assert_allclose(lam, 2 * 3.0)


@pytest.mark.parametrize("estimator", [t.Saga(), t.RgSvrg()], ids=["saga", "rg-svrg"])
def test_an_estimator_without_differences_is_a_mistake(estimator):
    with pytest.raises(t.UserError, match="receives no change of the gradient between two points, .* give lam"):
        play(t.Icgm(t.Nice(2), estimator), alike(), 1)
