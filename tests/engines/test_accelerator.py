"""Runs on an accelerator: the numbers of the processor, the same cohorts and the same ledger."""

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import ALGORITHMS, ASYNCHRONOUS, PROBABILITIES, PROBLEMS, SAMPLERS, SOLVERS, logistic, small

pytestmark = pytest.mark.skipif(jax.default_backend() == "cpu", reason="JAX sees no accelerator")

TOLERANCE = 1e-10
"""Larger than on a mesh: each kind of device has sums, exponentials and factorisations of its own."""

EXAMPLES = {name: example.on(3.0) for name, example in ALGORITHMS.items()} | ASYNCHRONOUS


def agree(algorithm, problem, **options):
    """Assert that a run on the accelerator is the run on the processor."""
    options = {"rounds": 4, **options}
    one = t.run(algorithm, problem, **options)
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        other = t.run(algorithm, problem, **options)
    for left, right in zip(*(jax.tree.leaves((trace.x, trace.columns)) for trace in (one, other)), strict=True):
        np.testing.assert_allclose(left, right, rtol=TOLERANCE, atol=TOLERANCE)
    for column in ("round", "counts"):
        np.testing.assert_array_equal(one.columns[column], other.columns[column])


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_algorithm(name):
    agree(EXAMPLES[name], small())


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler(name):
    agree(t.FedAvg(SAMPLERS[name], lr=0.05, steps=2), small())


@pytest.mark.parametrize("name", PROBABILITIES)
def test_samplers_that_learn_while_replies_are_lost(name):
    algorithm = t.FedAvg(t.Independent(size=3.0, probability=PROBABILITIES[name]), lr=0.05, steps=2)
    agree(algorithm, small(), rounds=12, faults=t.Faults(0.3, "skip"))


@pytest.mark.parametrize("name", SOLVERS)
def test_every_cohort_solver(name):
    # On quadratics the second step of local Newton is zero, and the sign of its rounding error decides what follows.
    problem = logistic() if name == "localnewton" else small()
    agree(t.Sppm(t.Nice(3), SOLVERS[name], gamma=0.5, inner=3), problem)


@pytest.mark.parametrize("name", PROBLEMS)
def test_passes_over_batches_on_every_problem(name):
    agree(t.Scaffold(t.Nice(4), lr=0.05, steps=2), PROBLEMS[name]())
    agree(t.FedAvg(t.Nice(4), lr=0.05, batch=3, epochs=2), PROBLEMS[name]())


OPTIONS = {
    "judged draws": {"metrics": ("value", "variance", "regret")},
    "top-k with memory": {"exchange": t.Exchange(up=t.codecs.TopK(fraction=0.4), feedback="ef21")},
    "random bits": {"exchange": t.Exchange(up=t.codecs.Qsgd(bits=4), down=t.codecs.Qsgd(bits=4))},
    "robust": {"aggregation": t.TrimmedMean(0.2)},
    "central privacy": {"privacy": t.Privacy(clip=1.0, noise_multiplier=1.0, delta=1e-5, seed=1)},
    "casts": {"exchange": t.Exchange(up=t.codecs.Cast("bfloat16"), down=t.codecs.Cast("float16"))},
    "a clock": {"devices": t.Devices(seconds_per_query=0.1, latency=0.2)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option(name):
    agree(t.MbGd(t.Independent(size=4.0), lr=0.05), logistic(), **OPTIONS[name])
