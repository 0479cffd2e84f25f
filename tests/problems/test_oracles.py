"""Clients whose losses are NumPy functions or PyTorch modules: every algorithm gives the compiled run, step by step."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import ALGORITHMS, SOLVERS, logistic, sppm
from turnout.core.errors import UserError
from turnout.engines import host_client
from turnout.testing.algorithms import compilations

HESSIAN = ("newton", "aicn", "giant", "localnewton", "sketch")
"""Cohort solvers that ask for second derivatives."""

CASES = {name: example.on(3.0) for name, example in ALGORITHMS.items()}
CASES |= {
    f"sppm-{name}": sppm(replace(solver, smoothness=20.0, convexity=0.5), t.Independent(size=3.0))
    for name, solver in SOLVERS.items()
    if name not in HESSIAN
}
CASES |= {"fedavg-epochs": t.FedAvg(t.Independent(size=3.0), lr=0.05, batch=3, epochs=2)}


def numpy_client(problem: t.Problem, i: int) -> t.NumpyOracle:
    """Client i of logistic regression as two functions."""
    features, signs = (part[problem.offsets[i] : problem.offsets[i + 1]] for part in problem.rows)

    def value(x, rows):
        return np.logaddexp(0, -signs[rows] * (features[rows] @ x)).mean() + problem.mu / 2 * x @ x

    def gradient(x, rows):
        slopes = -signs[rows] / (1 + np.exp(signs[rows] * (features[rows] @ x)))
        return features[rows].T @ slopes / len(slopes) + problem.mu * x

    def right(x, rows):
        return signs[rows] * (features[rows] @ x) > 0

    return t.NumpyOracle(value, gradient, len(signs), right)


def torch_client(problem: t.Problem, i: int):
    """Client i of logistic regression as a module and a loader."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
    from turnout.problems.oracles.torch_module import TorchOracle

    features, signs = (torch.as_tensor(np.asarray(part[problem.offsets[i] : problem.offsets[i + 1]])) for part in problem.rows)
    module = torch.nn.Linear(features.shape[1], 1, bias=False, dtype=torch.float64)

    def loss(module, batch):
        features, signs = batch
        penalty = problem.mu / 2 * module.weight.square().sum()
        return torch.nn.functional.softplus(-signs * module(features).squeeze(1)).mean() + penalty

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(features, signs), batch_size=7)
    return TorchOracle(module, loader, loss)


def owned(make, problem: t.Problem, start) -> t.Remote:
    """`problem` as its clients alone know it, one of them by its rows, all others as `make` says."""
    clients = [problem.client(0), *(make(problem, i) for i in range(1, problem.clients))]
    return t.Remote.of(start, clients, weights=problem.population.weights)


@pytest.mark.tiers(quick=[], longer=["sketch"])
@pytest.mark.parametrize("name", HESSIAN)
def test_numpy_functions_have_no_second_derivatives(name):
    other = owned(numpy_client, logistic(), logistic().start(jax.random.key(0)))
    with pytest.raises(UserError, match="NumpyOracle has no Hessian|needs second derivatives"):
        solver = replace(SOLVERS[name], smoothness=20.0, convexity=0.5)
        t.run(sppm(solver, t.Nice(3)), other, rounds=2, engine="nodes")


@pytest.mark.tiers(quick=[], slow=["fedavg-epochs", "sppm-lbfgs"])
@pytest.mark.parametrize("name", CASES)
def test_numpy_functions_give_the_compiled_run(name):
    problem = logistic()
    algorithm = CASES[name]
    other = owned(numpy_client, problem, problem.start(jax.random.key(0)))
    one, two = (
        t.run(algorithm, p, rounds=2, seed=4, engine=engine, metrics=("value", "gradient"))
        for p, engine in ((problem, "compiled"), (other, "nodes"))
    )
    np.testing.assert_allclose(one.x, two.x, rtol=1e-10, atol=1e-12)
    for name in ("value", "gradient"):
        np.testing.assert_allclose(one.columns[name], two.columns[name], rtol=1e-10)
    assert one.sites == two.sites
    np.testing.assert_array_equal(one.columns["counts"], two.columns["counts"])


TORCH = {
    **{name: CASES[name] for name in ("fedavg-epochs", "scaffold", "fedprox-sppm", "feddcd")},
    "sppm-newton": t.Sppm(
        t.Nice(4), t.solvers.Newton(smoothness=20.0, convexity=0.5, hessian="products", products=2), gamma=0.5, inner=1
    ),
}


@pytest.mark.tiers(quick=[], slow=["fedavg-epochs", "sppm-newton"])
@pytest.mark.parametrize("name", TORCH)
def test_pytorch_modules_give_the_compiled_run(name):
    problem = logistic()
    start = {"weight": np.zeros((1, 5))}
    algorithm = TORCH[name]
    clients = [torch_client(problem, i) for i in range(problem.clients)]
    other = t.Remote.of(start, clients, weights=problem.population.weights)
    one = t.run(algorithm, problem, rounds=2, seed=4)
    two = t.run(algorithm, other, rounds=2, seed=4, engine="nodes")
    np.testing.assert_allclose(one.x, two.x["weight"][0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.columns["value"], two.columns["value"], rtol=1e-9)
    np.testing.assert_array_equal(one.columns["counts"], two.columns["counts"])


GOOD = t.NumpyOracle(lambda x, rows: 0.5 * x @ x, lambda x, rows: x, 2)
START = np.zeros(3)


def short(problem: t.Problem, **options):
    return t.run(t.MbGd(t.Full(), lr=0.1), problem, rounds=1, engine="nodes", **options)


@pytest.mark.tiers(longer=["<lambda>-shape \\\\(2,\\\\)", "<lambda>-the structure"])
@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (lambda: t.Remote.of(START, lambda i: GOOD), "need sizes"),
        (lambda: t.Remote.of(START, [GOOD, "client"]), "an Oracle or a Problem of one client, but this one is a str"),
        (lambda: t.Remote.of(START, [logistic()]), "of one client, but this one has 12"),
        (lambda: t.Remote.of(START, [GOOD, GOOD], weights=[1.0]), "one number for each of the 2 clients"),
        (lambda: t.Remote.of(START, []), "at least one row"),
        (lambda: t.NumpyOracle(GOOD.value_of, GOOD.gradient_of, 0), "size = 0"),
        (lambda: short(t.Remote.of(START, [t.NumpyOracle(GOOD.value_of, lambda x, rows: x[:2], 2)])), r"shape \(2,\)"),
        (lambda: short(t.Remote.of(START, [t.NumpyOracle(GOOD.value_of, lambda x, rows: (x, x), 2)])), "the structure"),
        (lambda: short(t.Remote.of(START, [GOOD]), metrics=("gap",)), "no known minimiser"),
        (lambda: short(t.Remote.of(START, [GOOD], classifies=True)), "NumpyOracle does not classify"),
        (lambda: t.run(t.MbGd(t.Full(), lr=0.1), t.Remote.of(START, [GOOD]), rounds=1), "cannot be compiled"),
    ],
)
def test_a_mistake_is_one_sentence(problem, sentence):
    with pytest.raises(UserError, match=sentence):
        problem()


@pytest.mark.tiers(longer=["2", "3"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_order_of_few_rows_compiles_as_users_compile_it(rows):
    # Tests compile with other options, and a compiler was seen to fail on one row without these.
    options = {"xla_cpu_use_fusion_emitters": True} if jax.__version_info__ < (0, 11) else {}
    key = jax.random.key(0)
    order = host_client._order.lower(key, 0, rows).compile(options)(key, 0)
    assert sorted(order.tolist()) == list(range(rows))


def test_other_clients_of_the_same_sizes_compile_nothing():
    one, other = (t.Remote.of(START, [t.NumpyOracle(GOOD.value_of, GOOD.gradient_of, 2)]) for _ in range(2))
    short(one)
    assert not compilations(lambda: short(other))
    with pytest.raises(UserError, match="client 0 is not here"):
        other.without_clients().client(0)
