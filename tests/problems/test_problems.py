"""Problems: gradients, constants and optima against NumPy, however the rows are stored."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from tests.helpers.examples import logistic, network, quadratic
from tests.helpers.gradients import client_gradient, gradient
from turnout.data.dataset import Dataset
from turnout.data.splits import PowerSplit, Split
from turnout.problems.optimum import solve
from turnout.problems.row_formats import NarrowRows, SparseRows, compact
from turnout.problems.storage.jax_client import JaxClient
from turnout.problems.storage.layout import Padded, Ragged, total
from turnout.problems.storage.store import store


def ridge() -> t.Ridge:
    generator = np.random.default_rng(6)
    dataset = Dataset("made", generator.normal(size=(50, 4)), generator.normal(size=50))
    return t.Ridge.of(dataset, PowerSplit(clients=5, exponent=1.0).split(dataset), mu=0.3)


def sparse(problem):
    """The same problem with its features kept sparse."""
    features, labels = problem.rows
    return replace(problem, rows=(SparseRows.of(sp.csr_array(features)), labels))


@jax.jit
def answers(storage, ids, x):
    """Values, gradients and Hessian-vector products (v = x + 1) of clients `ids` at points x [m, ...], as one cohort."""

    def one(i, x):
        client = JaxClient(i, None, None, storage.oracle(i))
        return client.value(x), client.value_and_grad(x), client.hvp(x, jax.tree.map(lambda a: a + 1, x))

    return jax.vmap(one)(ids, x)


def oracles(problem, x, ids):
    """The same for a problem, whose rows are stored as they are for a run."""
    return jax.tree.map(np.asarray, answers(store(problem), np.asarray(ids, "int32"), x))


@pytest.mark.tiers(quick=["blocks"], longer=["tiles"])
@pytest.mark.parametrize("problem", [logistic(), sparse(logistic()), quadratic()], ids=["tiles", "sparse", "blocks"])
def test_each_client_has_its_own_oracle(problem):
    ids = [3, 0, 7, 3, 11]
    x = np.random.default_rng(1).normal(size=(5, 5))
    values, (same, gradients), products = oracles(problem, x, ids)
    np.testing.assert_allclose(values, same, rtol=1e-13)
    dense = logistic() if problem.rows[0].shape[-1] == 5 and not isinstance(problem, t.Quadratic) else problem
    for k, i in enumerate(ids):
        np.testing.assert_allclose(gradients[k], client_gradient(dense, i, x[k]), atol=1e-12)
        step = 1e-6 * (x[k] + 1)
        slope = (client_gradient(dense, i, x[k] + step) - client_gradient(dense, i, x[k] - step)) / 2e-6
        np.testing.assert_allclose(products[k], slope, atol=1e-6)


@jax.jit
def hessians(storage, ids, x):
    return jax.vmap(lambda i, x: JaxClient(i, None, None, storage.oracle(i)).hessian(x))(ids, x)


@pytest.mark.parametrize("make", [logistic, lambda: sparse(logistic())], ids=["tiles", "sparse"])
def test_the_hessian_of_a_client_is_the_sum_over_its_rows(make):
    """Also where its rows fill several tiles, and a client is there twice."""
    problem, dense = make(), logistic()
    ids, x = np.array([3, 0, 7, 3, 11], "int32"), np.random.default_rng(1).normal(size=(5, 5))
    assert isinstance(storage := store(problem), Ragged) and max(dense.sizes[ids]) > 2 * storage.tile
    for i, point, found in zip(ids, x, np.asarray(hessians(storage, ids, x)), strict=True):
        rows = dense.rows[0][dense.offsets[i] : dense.offsets[i + 1]]
        share = 1 / (1 + np.exp(-rows @ point))
        np.testing.assert_allclose(found, (rows.T * (share * (1 - share))) @ rows / len(rows) + dense.mu * np.eye(5), atol=1e-14)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.integers(1, 70), min_size=1, max_size=9), st.integers(0, 99), st.booleans())
def test_storage_never_changes_a_value(sizes, seed, keep_sparse):
    """Padded, tiles and sparse tiles all give f_i and f of plain NumPy, whatever the sizes."""
    generator = np.random.default_rng(seed)
    rows = sum(sizes)
    dataset = Dataset("made", generator.normal(size=(rows, 3)) * (generator.random((rows, 3)) < 0.7), generator.normal(size=rows))
    problem = t.Ridge.of(dataset, Split(np.arange(rows), np.concatenate([[0], np.cumsum(sizes)])), mu=0.1)
    stored = sparse(problem) if keep_sparse else problem
    x = generator.normal(size=3)
    values, (_, gradients), _ = oracles(stored, np.tile(x, (len(sizes), 1)), range(len(sizes)))
    features, targets = problem.rows
    residuals = features @ x - targets
    bounds = zip(problem.offsets, problem.offsets[1:], strict=False)
    expected = [np.mean(residuals[a:b] ** 2) / 2 + 0.05 * x @ x for a, b in bounds]
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(np.mean(gradients, axis=0), total_gradient(stored, x), atol=1e-12)


total_of = jax.jit(total, static_argnums=1)


def total_gradient(problem, x):
    return np.asarray(total_of(store(problem), "value_and_grad", x)[1]) + problem.mu * x


@pytest.mark.parametrize("problem", [logistic(), sparse(logistic())], ids=["dense", "sparse"])
def test_f_weighs_clients_by_lambda(problem):
    x = np.random.default_rng(0).normal(size=5)
    np.testing.assert_allclose(total_gradient(problem, x), gradient(logistic(), x), atol=1e-12)


@pytest.mark.longer
def test_a_networks_gradient_is_its_slope():
    problem = network()
    x = problem.start(jax.random.key(1))
    flat, unravel = jax.flatten_util.ravel_pytree(x)
    points = jax.tree.map(lambda a: a[None], x)
    _, (_, gradients), _ = oracles(problem, points, [2])
    slopes = jax.flatten_util.ravel_pytree(jax.tree.map(lambda a: a[0], gradients))[0]
    for k in range(0, flat.size, 7):
        step = jnp.zeros_like(flat).at[k].set(1e-6)
        up, down = (oracles(problem, jax.tree.map(lambda a: a[None], unravel(flat + s)), [2])[0][0] for s in (step, -step))
        assert slopes[k] == pytest.approx(float(up - down) / 2e-6, abs=1e-7)


@pytest.mark.tiers(quick=[], longer=["problem0"])
@pytest.mark.parametrize("problem", [logistic(), sparse(logistic()), ridge(), quadratic()])
def test_the_optimum_has_no_gradient(problem):
    optimum = solve(problem)
    storage = jax.tree.map(jnp.asarray, store(problem))
    value, slope = jax.tree.map(
        jnp.add, total(storage, "value_and_grad", optimum.x), jax.value_and_grad(problem.regulariser)(jnp.asarray(optimum.x))
    )
    assert np.linalg.norm(slope) <= 2e-12
    np.testing.assert_allclose(float(value), optimum.value, rtol=1e-15)


def flat(kind, mu=0.0):
    """A problem that has no minimiser (kind "separable"), or several."""
    generator = np.random.default_rng(0)
    if kind == "quadratic":
        return t.Quadratic.of(np.stack([np.diag([1.0, 0.0])] * 4), np.array([[1.0, 0.0]] * 4))
    features = generator.normal(size=(12, 20) if kind == "wide" else (60, 3))
    labels = np.arange(len(features)) % 3 if kind == "shifted" else np.sign(features[:, 0] + 0.1 * (kind == "separable"))
    dataset = Dataset("made", features, labels)
    make = {"wide": t.Ridge, "shifted": t.Multinomial, "separable": t.Logistic}[kind]
    return make.of(dataset, PowerSplit(clients=4, exponent=1.0).split(dataset), mu=mu)


@pytest.mark.parametrize("kind", ["wide", "shifted", "separable", "quadratic"])
def test_a_distance_is_refused_where_f_has_several_minimisers_or_none(kind):
    method = t.MbGd(t.Full(), lr=0.1)
    with pytest.raises(t.UserError, match="one minimiser"):
        t.run(method, flat(kind), rounds=1, metrics=["distance"])
    assert not solve(flat(kind)).unique
    if kind != "quadratic":
        assert solve(flat(kind, mu=1e-3)).unique


def test_a_minimiser_needs_no_regulariser_where_f_is_curved():
    generator = np.random.default_rng(1)
    dataset = Dataset("made", generator.normal(size=(60, 3)), generator.choice([-1.0, 1.0], 60))
    assert solve(t.Logistic.of(dataset, PowerSplit(clients=4, exponent=1.0).split(dataset), mu=0.0)).unique
    assert solve(t.Quadratic.random(4, 3)).unique


def test_a_hessian_that_is_too_large_leaves_the_word_to_the_class(monkeypatch):
    monkeypatch.setattr("turnout.problems.optimum.FEW", 2)
    assert solve(t.Quadratic.random(4, 3)).unique and not solve(flat("separable")).unique


@pytest.mark.parametrize(("curvature", "message"), [(-2.0, "no minimum"), (0.0, "not found")])
def test_a_saddle_point_is_no_minimum(curvature, message):
    with pytest.raises(t.UserError, match=message):
        solve(t.Quadratic.of(np.stack([np.diag([1.0, curvature])] * 4), np.ones((4, 2))))


@pytest.mark.tiers(quick=["quadratic"], longer=["ridge"])
@pytest.mark.parametrize("problem", [logistic(), ridge(), quadratic()], ids=["logistic", "ridge", "quadratic"])
def test_constants_bound_every_clients_gradient(problem):
    constants, generator = problem.constants(), np.random.default_rng(3)
    width = problem.rows[0].shape[-1]
    for _ in range(20):
        x, y = generator.normal(size=(2, problem.clients, width))
        ids = range(problem.clients)
        change = np.linalg.norm(oracles(problem, x, ids)[1][1] - oracles(problem, y, ids)[1][1], axis=1)
        moved = np.linalg.norm(x - y, axis=1)
        assert np.all(change <= constants.smoothness * moved * (1 + 1e-12))
        assert np.all(change >= constants.convexity * moved * (1 - 1e-12))


def test_power_law_sizes_are_stored_in_their_own_size():
    """The largest client is 100 times the median; neither dense nor sparse rows take twice their own bytes."""
    sizes = np.concatenate([[2000], np.full(60, 20), np.arange(10, 30)])
    rows = int(sizes.sum())
    features = np.random.default_rng(0).normal(size=(rows, 30))
    dataset = Dataset("made", features, np.resize([-1.0, 1.0], rows))
    problem = t.Logistic.of(dataset, Split(np.arange(rows), np.concatenate([[0], np.cumsum(sizes)])), mu=0.1)
    assert isinstance(store(problem), Ragged)
    for stored in (problem, sparse(problem)):
        own = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(stored.rows))
        assert sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(store(stored))) <= 1.5 * own
    assert isinstance(store(quadratic()), Padded)


def test_sparse_features_stay_sparse():
    features = sp.random_array((200, 500), density=0.01, rng=np.random.default_rng(0)).tocsr()
    dataset = Dataset("made", features, np.resize([-1.0, 1.0], 200))
    problem = t.Logistic.of(dataset, Split(np.arange(200), np.arange(0, 201, 20)), mu=0.1)
    assert isinstance(problem.rows[0], SparseRows)
    held = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(problem.rows[0]))
    assert held <= features.data.nbytes + features.indices.nbytes + features.indptr.nbytes


@pytest.mark.parametrize(
    ("density", "ones", "format"), [(0.1, True, NarrowRows), (0.1, False, np.ndarray), (0.005, True, SparseRows)]
)
def test_sparse_features_are_dense_where_rows_are_short(density, ones, format):
    """Products with them are the same."""
    features = sp.random_array((200, 60), density=density, rng=np.random.default_rng(0)).tocsr()
    features.data = np.ones_like(features.data) if ones else features.data
    stored, x = compact(features), np.arange(60.0)
    assert isinstance(stored, format)
    np.testing.assert_allclose(stored.to_scipy() @ x if format is SparseRows else stored @ x, features @ x, rtol=1e-12)


def test_what_cannot_be_built_says_so():
    one_class = Dataset("made", np.ones((4, 2)), np.ones(4))
    with pytest.raises(t.UserError, match="needs two classes, but made has 1"):
        t.Logistic.of(one_class, Split(np.arange(4), np.array([0, 2, 4])), mu=0.1)
    two = Dataset("made", np.ones((4, 2)), np.array([0, 1, 0, 1]))
    with pytest.raises(t.UserError, match="client weights"):
        t.Logistic.of(two, Split(np.arange(4), np.array([0, 2, 4])), mu=0.1, weights=np.array([1.0, -1.0]))
    with pytest.raises(t.UserError, match="optimum of Network is not known"):
        solve(network())
    with pytest.raises(t.UserError, match="symmetric"):
        t.Quadratic.of(np.array([[[1.0, 2.0], [0.0, 1.0]]]), np.zeros((1, 2)))


def test_data_and_splits_that_do_not_fit_are_mistakes():
    dataset = Dataset("made", np.eye(6), np.resize([-1.0, 1.0], 6))
    rule = PowerSplit(clients=2, exponent=1.0)
    for make in (t.Logistic.of, t.Ridge.of, t.Multinomial.of):
        for arguments, message in (
            ((dataset, rule), "split must be a Split such as"),
            ((rule.split(dataset), dataset), "dataset must be a Dataset such as"),
            ((dataset, Split.of([[0, 1], [2, 6]], rows=7)), "the split has row 6, but made has 6 rows"),
        ):
            with pytest.raises(t.UserError, match=message):
                make(*arguments, mu=0.1)
