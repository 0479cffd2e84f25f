"""The method without a plan: its step sizes are those of the curvature, and it does what its table says."""

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import turnout as t
from turnout.accounting.prices import Exchanges, LinearPrice
from turnout.core.seeds import host_key
from turnout.data import IidSplit, load
from turnout.problems.curvature import TOLERANCE
from turnout.problems.logistic import NonconvexLogistic
from turnout.problems.storage.layout import objective
from turnout.problems.storage.store import store

CONTACTS, BOTH = LinearPrice(contacts=1.0), LinearPrice(exchanges=1.0, contacts=0.1)


def logistic(kind=t.Logistic, **settings):
    data = load("breast_cancer").normalized("columns")
    return kind.of(data, IidSplit(clients=10).split(data), **settings)


def network():
    data = load("iris")
    return t.Network.of(data, IidSplit(clients=5).split(data), hidden=4, mu=0.01)


def test_one_exchange_leads_to_the_minimiser_of_a_quadratic():
    problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
    trace = t.run(t.auto(problem), problem, rounds=1, metrics=["gradient"])
    assert trace.frame["gradient"][-1] < 1e-10 * trace.frame["gradient"][0]
    assert trace.ledger.totals()["exchanges"] == 1


def test_step_sizes_are_multiples_of_one_over_the_largest_curvature():
    problem = logistic(NonconvexLogistic, mu=0.0, alpha=0.05)
    features, bounds = np.asarray(problem.rows[0]), np.asarray(problem.offsets)
    parts = [features[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
    largest = max(np.linalg.eigvalsh(part.T @ part / len(part))[-1] / 4 + 2 * 0.05 for part in parts)
    for price, size, factor, steps in [(Exchanges(), 10, 1, 32), (BOTH, 2, 2, 8), (CONTACTS, 1, 1, 8)]:
        method = t.auto(problem, price)
        assert isinstance(method, t.Scaffold) and (method.sampler, method.steps) == (t.ShuffledNice(size), steps)
        assert method.lr == pytest.approx(factor / largest)


def test_hessians_come_where_they_are_worth_their_price():
    problem = logistic(mu=0.1)
    solvers = [
        type(t.auto(problem, price).solver)
        for price in (Exchanges(), BOTH, CONTACTS, LinearPrice(exchanges=1.0, queries_slowest=0.1))
    ]
    assert solvers == [t.solvers.Newton, t.solvers.Newton, t.solvers.Newton, t.solvers.SketchedNewton]


def test_matrices_that_do_not_fit_are_not_made(monkeypatch):
    problem = logistic(mu=0.1)
    monkeypatch.setattr("turnout.planner.auto.LARGEST", 8 * 30**2 * 5)
    assert isinstance(t.auto(problem).solver, t.solvers.SketchedNewton)
    monkeypatch.setattr("turnout.planner.auto.LARGEST", 100)
    assert isinstance(t.auto(problem), t.Scaffold)


def test_a_network_takes_the_curvature_at_its_start():
    problem = network()
    method = t.auto(problem, BOTH)
    assert isinstance(method, t.FedDyn) and method.sampler == t.ShuffledNice(1)
    start, unravel = ravel_pytree(problem.start(host_key(0)))
    hessian = jax.hessian(lambda x: objective(store(problem), "value", unravel(x)))(start)
    assert 100 / method.gamma == pytest.approx(np.linalg.eigvalsh(np.asarray(hessian)).max(), rel=TOLERANCE)


def test_without_a_curvature_to_compute_clients_measure_it():
    oracle = t.NumpyOracle(lambda x, rows: x @ x / 2, lambda x, rows: x, size=1)
    elsewhere, flat = t.Remote.of(np.zeros(2), [oracle, oracle]), t.Quadratic.of(np.zeros((2, 3, 3)), np.ones((2, 3)))
    for problem in (elsewhere, flat, t.Grouped.of(network(), t.Frozen("output"))):
        assert t.auto(problem) == t.FedAvg(t.ShuffledNice(problem.population.count), lr="auto", steps=16)
        assert t.auto(problem, CONTACTS) == t.FedAvg(t.ShuffledNice(1), lr="auto", steps=16)
