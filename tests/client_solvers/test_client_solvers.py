"""Local solvers: what they find, what their certificate promises, what they count."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array

import turnout as t
from turnout import client_solvers as local
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.experiment.config import read
from turnout.problems.storage.jax_client import JaxClient
from turnout.problems.storage.layout import Ragged
from turnout.problems.storage.store import store
from turnout.runs.setup import bind

SIZES = np.array([3, 30, 7, 2])


@partial(jax.jit, static_argnames=("clients",))
def every_client(storage, solver, tilt, start, delta, convexity, *, clients):
    """What each client finds; `tilt` and `start` have a leading axis of clients."""

    def one(i, tilt, start):
        client = JaxClient(i, jax.random.fold_in(jax.random.key(5), i), None, storage.oracle(i))
        return solver.minimise(client, tilt, start, delta, convexity)

    return jax.vmap(one)(jnp.arange(clients, dtype="int32"), tilt, start)


def solved(problem, solver, tilt, start, delta=None, convexity=None) -> local.Solution:
    found = every_client(store(problem), bind(solver, problem), tilt, start, delta, convexity, clients=problem.clients)
    return jax.tree.map(np.asarray, found)


@cache
def quadratic(condition: float, seed: int = 0) -> t.Quadratic:
    """Three clients whose eigenvalues are in [1 / condition, 1]."""
    return t.Quadratic.random(3, 4, smallest=1 / condition, largest=1.0, seed=seed)


def quadratic_minimisers(problem, tilt) -> np.ndarray:
    matrices, vectors = problem.rows
    weight = np.reshape(tilt.weight, (-1, 1, 1))
    return np.linalg.solve(matrices + weight * np.eye(4), (vectors + tilt.linear + weight[:, 0] * tilt.centre)[..., None])[..., 0]


def untilted(shape) -> local.Tilt:
    return local.Tilt(np.zeros(shape), np.zeros(shape[0]), np.zeros(shape))


def tilted(shape, weight: float, seed: int = 1) -> local.Tilt:
    generator = np.random.default_rng(seed)
    return local.Tilt(generator.normal(size=shape), np.full(shape[0], weight), generator.normal(size=shape))


@cache
def logistic() -> t.Logistic:
    """Four clients of very different sizes with sparse rows."""
    generator = np.random.default_rng(2)
    rows = int(SIZES.sum())
    features = csr_array(np.where(generator.random((rows, 5)) < 0.6, generator.normal(size=(rows, 5)), 0))
    dataset = Dataset("made", features, np.where(generator.normal(size=rows) > 0, 1.0, -1.0))
    return t.Logistic.of(dataset, Split(np.arange(rows), np.concatenate([[0], np.cumsum(SIZES)])), mu=0.2)


@cache
def logistic_minimisers(weight: float) -> np.ndarray:
    """Those of every client's tilted function, by SciPy from the raw rows."""
    generator, problem, tilt = np.random.default_rng(2), logistic(), tilted((4, 5), weight)
    rows = int(SIZES.sum())
    features = np.where(generator.random((rows, 5)) < 0.6, generator.normal(size=(rows, 5)), 0)
    signs, ends = np.where(generator.normal(size=rows) > 0, 1.0, -1.0), np.cumsum(SIZES)
    found = []
    for i, (size, end) in enumerate(zip(SIZES, ends, strict=True)):
        a = features[end - size : end] * signs[end - size : end, None]

        def phi(w, a=a, i=i):
            moved, chance = w - tilt.centre[i], 1 / (1 + np.exp(a @ w))
            value = np.mean(np.log1p(np.exp(-a @ w))) + problem.mu / 2 * w @ w - w @ tilt.linear[i] + weight / 2 * moved @ moved
            return value, -a.T @ chance / len(a) + problem.mu * w - tilt.linear[i] + weight * moved

        found.append(minimize(phi, np.zeros(5), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 0}).x)
    return np.array(found)


EXACT = [local.NewtonCg(), local.Bfgs(), local.Lbfgs(), local.Gradient(steps=10**6)]


@pytest.mark.tiers(longer=["Bfgs", "Lbfgs"])
@pytest.mark.parametrize("solver", EXACT, ids=lambda solver: type(solver).__name__)
def test_quadratics_are_solved_to_the_tolerance(solver):
    for condition in (10.0, 1e4):
        problem, tilt = quadratic(condition), tilted((3, 4), weight=0.1 / condition)
        found = solved(problem, solver, tilt, np.zeros((3, 4)))
        distance = np.linalg.norm(found.point - quadratic_minimisers(problem, tilt), axis=1)
        assert np.all(distance <= 1e-6 / (1.1 / condition) + 1e-9)
        assert np.all(found.missed == 0)


@pytest.mark.tiers(quick=[], longer=["Lbfgs"])
@pytest.mark.parametrize(
    "solver",
    [local.NewtonCg(), local.Lbfgs(), local.Svrg(lr=0.1, epochs=2000)],
    ids=lambda solver: type(solver).__name__,
)
def test_logistic_clients_of_unequal_sizes_with_sparse_rows_agree_with_scipy(solver):
    assert isinstance(store(logistic()), Ragged)
    found = solved(logistic(), solver, tilted((4, 5), weight=0.5), np.ones((4, 5)))
    distance = np.linalg.norm(found.point - logistic_minimisers(0.5), axis=1)
    assert np.all(distance <= 1e-6 / 0.7 + 1e-8)


@pytest.mark.slow
def test_a_tighter_tolerance_brings_more_digits():
    found = solved(logistic(), local.NewtonCg(tolerance=1e-13), tilted((4, 5), weight=0.5), np.ones((4, 5)))
    again = solved(logistic(), local.NewtonCg(tolerance=0.0), tilted((4, 5), weight=0.5), np.ones((4, 5)))
    np.testing.assert_allclose(found.point, again.point, atol=1e-12)
    assert np.all(again.queries < 200)


@pytest.mark.parametrize(
    "solver",
    [local.NewtonCg(), local.Bfgs(), local.Gradient(steps=10**6)],
    ids=lambda solver: type(solver).__name__,
)
@settings(max_examples=12)
@given(st.integers(0, 50), st.floats(0.001, 0.9), st.sampled_from([1e-3, 1.0, 100.0]), st.sampled_from([2.0, 1000.0]))
def test_the_certificate_is_true(solver, seed, delta, scale, condition):
    problem, tilt = quadratic(condition, seed), tilted((3, 4), weight=0.01, seed=seed)
    exact = quadratic_minimisers(problem, tilt)
    start = exact + scale * np.random.default_rng(seed).normal(size=(3, 4))
    found = solved(problem, solver, tilt, start, delta, problem.constants().convexity)
    error, first = np.linalg.norm(found.point - exact, axis=1), np.linalg.norm(start - exact, axis=1)
    assert np.all(error**2 <= delta * first**2)
    assert np.all(found.missed == 0)


@pytest.mark.parametrize("solver", [local.NewtonCg(), local.Gradient(steps=10**6)], ids=lambda solver: type(solver).__name__)
def test_rounding_is_no_miss(solver):
    problem, tilt = quadratic(100.0), tilted((3, 4), weight=0.01)
    exact, convexity = quadratic_minimisers(problem, tilt), problem.constants().convexity
    for scale in (0.0, 1e-15, 1e-13, 1e-11):
        found = solved(problem, solver, tilt, exact + scale, 0.1, convexity)
        assert np.all(found.missed == 0)
        assert np.all(np.abs(found.point - exact) <= scale + 1e-11)


TIRED = [local.NewtonCg(steps=1, products=1), local.Gradient(steps=3), local.Bfgs(steps=3)]


@pytest.mark.parametrize("solver", TIRED, ids=lambda solver: type(solver).__name__)
def test_too_little_work_is_a_miss_where_a_certificate_is_wanted(solver):
    problem, tilt = quadratic(1000.0), tilted((3, 4), weight=0.0)
    start = np.zeros((3, 4))
    assert np.all(solved(problem, solver, tilt, start, 1e-6, problem.constants().convexity).missed == 1)
    assert np.all(solved(problem, solver, tilt, start).missed == 0)


@pytest.mark.longer
def test_single_precision_ends_and_certifies():
    with jax.enable_x64(False):
        problem, tilt = quadratic(100.0), jax.tree.map(np.float32, tilted((3, 4), weight=0.01))
        found = solved(problem, local.NewtonCg(), tilt, np.zeros((3, 4), np.float32), 0.1, problem.constants().convexity)
        again = solved(problem, local.NewtonCg(), tilt, found.point, 0.1, problem.constants().convexity)
    exact = quadratic_minimisers(problem, tilt)
    assert found.point.dtype == np.float32
    assert np.all(found.missed == 0) and np.all(again.missed == 0) and np.all(again.queries < 50)
    np.testing.assert_allclose(again.point, exact, atol=1e-3)


class Counting(JaxClient):
    """A client that counts the calls of its oracle."""

    calls = 0

    def value_and_grad(self, x):
        self.calls += 1
        return super().value_and_grad(x)

    def hvp(self, x, v):
        self.calls += 1
        return super().hvp(x, v)

    def alone(self, f):
        return f()


@pytest.mark.tiers(quick=[], longer=["Gradient"])
@pytest.mark.parametrize("solver", [local.NewtonCg(), local.Gradient(lr=0.9, steps=20)], ids=lambda solver: type(solver).__name__)
def test_queries_are_the_oracle_calls_made(solver):
    problem = quadratic(10.0)
    with jax.disable_jit():
        i = jnp.zeros((), "int32")
        client = Counting(i, None, None, store(problem).oracle(i))
        found = solver.minimise(client, local.Tilt(), jnp.zeros(4))
    assert found.queries == client.calls > 3


def full_gradients(problem, steps: int, method) -> np.ndarray:
    """What `method(w, g, memory, k)` makes of full gradients of every client from zero, in NumPy."""
    matrices, vectors = problem.rows
    w, memory = np.zeros_like(vectors), None
    for k in range(1, steps + 1):
        w, memory = method(w, np.einsum("nij,nj->ni", matrices, w) - vectors, memory, k)
    return w


def adam(w, g, memory, k, lr=0.03):
    first, second = (0.0, 0.0) if memory is None else memory
    first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
    return w - lr * (first / (1 - 0.9**k)) / (np.sqrt(second / (1 - 0.999**k)) + 1e-8), (first, second)


@pytest.mark.longer
def test_stochastic_solvers_on_whole_batches_are_their_numpy_programs():
    problem, start = quadratic(10.0), np.zeros((3, 4))
    sgd = solved(problem, local.Sgd(lr=0.03, batch=1, epochs=4), untilted((3, 4)), start)
    np.testing.assert_allclose(sgd.point, full_gradients(problem, 4, lambda w, g, *_: (w - 0.03 * g, None)), atol=1e-14)
    assert np.all(sgd.queries == 4) and np.all(sgd.missed == 0)
    found = solved(problem, local.Adam(lr=0.03, batch=1, epochs=4), untilted((3, 4)), start)
    np.testing.assert_allclose(found.point, full_gradients(problem, 4, adam), atol=1e-8)
    assert np.all(found.queries == 4)


@pytest.mark.longer
def test_passes_over_few_rows_are_few_queries():
    """And one more where a certificate is wanted, which so few passes miss."""
    found = solved(logistic(), local.Sgd(lr=0.1, batch=4, epochs=3), untilted((4, 5)), np.zeros((4, 5)), 1e-6, 0.2)
    assert found.queries.tolist() == (3 * -(-SIZES // 4) + 1).tolist()
    assert np.all(found.missed == 1)


CONFIGURED = """
[problem]
kind = "ridge"
data = "a9a"

[split]
kind = "iid"
clients = 10

[sampler]
kind = "nice"
size = 3

[algorithm]
kind = "fedprox-sppm"
gamma = 1.0
"""


def configured(folder, text: str = ""):
    path = folder / "made.toml"
    path.write_text(CONFIGURED + text)
    return read(path)


@pytest.mark.parametrize(
    ("text", "solver"),
    [
        ("", local.Bfgs(tolerance=1e-8)),
        ('solver = "newton-cg"', local.NewtonCg()),
        ('solver = { kind = "newton-cg", steps = 10 }', local.NewtonCg(steps=10)),
        ('[algorithm.solver]\nkind = "bfgs"\ntolerance = 1e-3', local.Bfgs(tolerance=1e-3)),
        ('solver = { kind = "adam", lr = 0.1, batch = 8, epochs = 2 }', local.Adam(0.1, 8, 2)),
    ],
)
def test_a_configuration_names_a_local_solver(tmp_path, text, solver):
    experiment = configured(tmp_path, text)
    assert experiment.algorithm.solver == solver
    (tmp_path / "again.toml").write_text(experiment.to_toml())
    assert read(tmp_path / "again.toml").algorithm == experiment.algorithm


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('solver = "newton"', "line 17: algorithm.solver.*unknown local solver kind 'newton'"),
        ("solver = { steps = 10 }", r"line 17: algorithm.solver: table \[solver\] needs a kind"),
        ("solver = 3", r"line 17: algorithm.solver: must be a LocalSolver such as t.client_solvers.NewtonCg\(\), but it is 3"),
        ('solver = { kind = "newton-cg", steps = 0 }', "algorithm.solver.steps: must be at least 1"),
    ],
)
def test_a_mistake_about_a_local_solver_is_one_sentence(tmp_path, text, words):
    with pytest.raises(t.UserError, match=words):
        configured(tmp_path, text)


def test_solvers_say_what_a_problem_lacks():
    problem = replace(quadratic(10.0))
    unknown = type("Unknown", (t.Quadratic,), {"constants": lambda self: None, "twice_differentiable": False})
    bare = unknown(problem.rows, problem.offsets, problem.population)
    with pytest.raises(t.UserError, match="solver Gradient needs lr: Unknown does not know"):
        bind(local.Gradient(), bare)
    with pytest.raises(t.UserError, match="solver NewtonCg needs second derivatives: Unknown has none"):
        bind(local.NewtonCg(), bare)
