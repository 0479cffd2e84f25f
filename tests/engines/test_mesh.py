"""Runs on a mesh of devices: the same numbers as on one, the same cohorts and the same ledger."""

import re

import jax
import numpy as np
import pytest
from scipy.sparse import csr_array

import turnout as t
from tests.helpers.examples import (
    ALGORITHMS,
    ASYNCHRONOUS,
    PROBABILITIES,
    PROBLEMS,
    SAMPLERS,
    SOLVERS,
    logistic,
    small,
)
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.engines import mesh
from turnout.problems.storage.layout import Padded, Ragged
from turnout.problems.storage.store import store
from turnout.runs.session import Session
from turnout.runs.sweep import cells_of

TOLERANCE, SINGLE = 1e-12, 1e-6

EXAMPLES = {name: example.on(3.0) for name, example in ALGORITHMS.items()} | ASYNCHRONOUS


def agree(algorithm, problem, count, **options):
    """Assert that a run on a mesh is the run on one device, and return it."""
    options, tolerance = {"rounds": 4, **options}, SINGLE if options.get("precision") == "mixed" else TOLERANCE
    one, other = (t.run(algorithm, problem, mesh=devices, **options) for devices in (1, count))
    for left, right in zip(*(jax.tree.leaves((trace.x, trace.columns)) for trace in (one, other)), strict=True):
        np.testing.assert_allclose(right, left, rtol=tolerance, atol=tolerance)
    for column in ("round", "counts"):
        np.testing.assert_array_equal(other.columns[column], one.columns[column])
    return other


@pytest.mark.tiers(quick=[], longer=["mifa-4"], slow=["icgm-4", "saber-partial-4"])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_algorithm(name, count):
    agree(EXAMPLES[name], small(), count)


@pytest.mark.tiers(quick=[], slow=["available", "stratified"])
@pytest.mark.parametrize(
    "name",
    SAMPLERS,
)
def test_every_sampler(name):
    agree(t.FedAvg(SAMPLERS[name], lr=0.05, steps=2), small(), 4)


@pytest.mark.tiers(quick=[], slow=["vrb"])
@pytest.mark.parametrize("name", PROBABILITIES)
def test_samplers_that_learn_while_replies_are_lost(name):
    algorithm = t.FedAvg(t.Independent(size=3.0, probability=PROBABILITIES[name]), lr=0.05, steps=2)
    totals = agree(algorithm, small(), 4, rounds=12, faults=t.Faults(0.3, "skip")).ledger.totals()
    assert totals["arrivals"] < totals["contacts"]


@pytest.mark.tiers(quick=[], slow=["giant", "sketch"])
@pytest.mark.parametrize("name", SOLVERS)
def test_every_cohort_solver(name):
    # On quadratics the second step of local Newton is zero, and the sign of its rounding error decides what follows.
    problem = logistic() if name == "localnewton" else small()
    agree(t.Sppm(t.Nice(3), SOLVERS[name], gamma=0.5, inner=3), problem, 4)


@pytest.mark.tiers(quick=[], slow=["logistic"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_passes_over_batches_on_every_problem(name):
    agree(t.Scaffold(t.Nice(4), lr=0.05, steps=2), PROBLEMS[name](), 5)
    agree(t.FedAvg(t.Nice(4), lr=0.05, batch=3, epochs=2), PROBLEMS[name](), 5)


def rows_of(kind):
    """Return a logistic problem whose rows are stored as `kind` says."""
    generator = np.random.default_rng(4)
    sizes = {"equal": [6] * 7, "padded": [4, 6, 5, 6, 6, 5, 6], "tiles": [3, 40, 8, 1, 8, 3, 9], "sparse": [3, 40, 8, 1, 8, 3, 9]}
    features = generator.normal(size=(sum(sizes[kind]), 30))
    if kind == "sparse":
        features = csr_array(np.where(features > 1.5, features, 0))
    labels = np.where(generator.normal(size=features.shape[0]) > 0, 1.0, -1.0)
    split = Split(np.arange(labels.size), np.concatenate([[0], np.cumsum(sizes[kind])]))
    return t.Logistic.of(Dataset("made", features, labels), split, mu=0.1)


@pytest.mark.tiers(quick=[], slow=["tiles-3", "sparse-8"])
@pytest.mark.parametrize("count", [3, 8])
@pytest.mark.parametrize("kind", ["equal", "padded", "tiles", "sparse"])
def test_every_layout_of_rows(kind, count):
    problem = rows_of(kind)
    assert isinstance(store(problem), Padded if kind in ("equal", "padded") else Ragged)
    metrics = ("value", "gap", "gradient", "distance", "accuracy", "accuracy_10", "accuracy_90")
    agree(t.FedAvg(t.Nice(3), lr=0.05, steps=2), problem, count, metrics=metrics)


OPTIONS = {
    "judged draws": {"metrics": ("value", "variance", "regret")},
    "top-k with memory": {"exchange": t.Exchange(up=t.codecs.TopK(fraction=0.4), feedback="ef21")},
    "random bits": {"exchange": t.Exchange(up=t.codecs.Qsgd(bits=4), down=t.codecs.Qsgd(bits=4))},
    "bounded replies": {"faults": t.Faults(norm=10.0, clip=0.5)},
    "robust": {"aggregation": t.TrimmedMean(0.2)},
    "local privacy": {"privacy": t.Privacy(clip=1.0, noise_multiplier=1.0, delta=1e-5, model="local", seed=1)},
    "central privacy": {"privacy": t.Privacy(clip=1.0, noise_multiplier=1.0, delta=1e-5, seed=1)},
    "a clock": {"devices": t.Devices(seconds_per_query=0.1, latency=0.2)},
    "half precision": {"precision": "mixed"},
}


@pytest.mark.tiers(quick=[], slow=["judged draws", "top-k with memory", "robust"])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option(name):
    agree(t.MbGd(t.Independent(size=4.0), lr=0.05), logistic(), 4, **OPTIONS[name])


@pytest.mark.slow
def test_the_dual_gap():
    agree(ALGORITHMS["feddcd"].make(t.Nice(3)), small(), 4, metrics=("dual_gap",))


@pytest.mark.slow
def test_a_checkpoint_goes_on_with_another_number_of_devices():
    algorithm, options = ALGORITHMS["scaffold"].make(t.Nice(3)), {"rounds": 6, "every": 2}
    whole = t.run(algorithm, small(), **options)
    session = Session(algorithm, small(), mesh=4, **options)
    session.step(1), session.step(1)
    other = Session(algorithm, small(), mesh=2, **options)
    other.restore(session.snapshot())
    trace = other.run().trace
    np.testing.assert_allclose(trace.x, whole.x, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_array_equal(trace.columns["counts"], whole.columns["counts"])


SWEPT = {"fedavg": {"lr": [0.02, 0.05]}, "scaffold": {"lr": [0.02, 0.05]}, "sppm": {"gamma": [0.5, 1.0]}}


@pytest.mark.tiers(quick=[], slow=["scaffold-4"])
@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("name", SWEPT)
def test_cells_of_a_sweep_over_devices(name, count):
    """Six cells, of which four devices have two each, the last one the same again."""
    algorithm = ALGORITHMS[name].make(t.Independent(size=3.0, probability=t.KVib()) if name == "fedavg" else t.Nice(3))
    one, other = (t.sweep(algorithm, small(), SWEPT[name], seeds=range(3), rounds=4, mesh=devices) for devices in (1, count))
    assert one.cells == other.cells
    for left, right in zip(one.traces, other.traces, strict=True):
        np.testing.assert_allclose(*(jax.tree.leaves(trace.x)[0] for trace in (left, right)), rtol=TOLERANCE, atol=TOLERANCE)
        np.testing.assert_array_equal(left.columns["counts"], right.columns["counts"])
        np.testing.assert_allclose(left.columns["value"], right.columns["value"], rtol=TOLERANCE)


@pytest.mark.slow
def test_a_sweep_over_devices_goes_on_with_another_number_of_them():
    algorithm = ALGORITHMS["scaffold"].make(t.Nice(3))
    cells, options = cells_of({"lr": [0.02, 0.03, 0.05]}, [0]), {"rounds": 6, "every": 2}
    whole = Session(algorithm, small(), cells=cells, **options).run()
    session = Session(algorithm, small(), cells=cells, mesh=2, **options)
    session.step(1), session.step(1)
    other = Session(algorithm, small(), cells=cells, mesh=3, **options)
    other.restore(session.snapshot())
    for left, right in zip(whole.traces, other.run().traces, strict=True):
        np.testing.assert_allclose(right.x, left.x, rtol=TOLERANCE, atol=TOLERANCE)
    alone = Session(algorithm, small(), cells=cells, mesh=2, **options).split()[1].run()
    np.testing.assert_allclose(alone.trace.x, whole.traces[1].x, rtol=TOLERANCE, atol=TOLERANCE)


def test_a_mesh_larger_than_what_there_is():
    with pytest.raises(t.UserError, match="mesh = 99 needs as many devices, and JAX has 8 of kind 'cpu'"):
        t.run(t.MbGd(t.Full(), lr=0.1), small(), rounds=1, mesh=99)


def test_what_a_mesh_does_not_go_with():
    algorithm = t.MbGd(t.Full(), lr=0.1)
    with pytest.raises(t.UserError, match="mesh = 2 is for the compiled engine: leave it out, or engine = 'nodes'"):
        t.run(algorithm, small(), rounds=1, mesh=2, engine="nodes")


@pytest.mark.slow
def test_sums_alone_travel_where_an_algorithm_only_averages():
    """Of 16 replies of 37 numbers, devices send one sum; an algorithm that looks at each sends all."""
    problem, sizes = t.Quadratic.random(64, 37, seed=1), {}
    for name in ("fedavg", "feddcd"):
        engine = Session(ALGORITHMS[name].make(t.Nice(16)), problem, rounds=5, mesh=4).engine
        arguments = engine._inputs, engine.algorithm, engine.begin(), 5, 3, 1
        options = {"sites": engine.sites, "metrics": engine.metrics, "mesh": engine.mesh}
        text = mesh._advance.compiled(True).lower(*arguments, **options).compile().as_text()
        sent = [line.split("all-reduce(")[0] for line in text.splitlines() if "all-reduce(" in line]
        assert sent and "all-gather(" not in text
        sizes[name] = {shape for line in sent for shape in re.findall(r"f64\[([\d,]*)\]", line)}
    assert sizes == {"fedavg": {"", "37"}, "feddcd": {"", "16,37"}}
