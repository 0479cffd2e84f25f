"""Everything public has an example, and so goes through the tests of its kind."""

import inspect

import pytest

from tests.helpers.examples import (
    ALGORITHMS,
    ASYNCHRONOUS,
    CLIENT_SOLVERS,
    CODECS,
    ESTIMATORS,
    IN_HUBS,
    OPTIMISERS,
    PERSONAL_LEAVES,
    PROBABILITIES,
    SAMPLERS,
    SOLVERS,
    small,
)
from turnout import algorithms, client_solvers, codecs, estimators, optimisers, samplers, solvers
from turnout.experiment.registry import TABLES
from turnout.samplers import GradientStratified, Nice, Weighted, probabilities

MADE = {name: example.make(Nice(3)) for name, example in (ALGORITHMS | PERSONAL_LEAVES).items()} | ASYNCHRONOUS | IN_HUBS

KINDS = [
    ("algorithm", algorithms, MADE, algorithms.FedAvg.__mro__[-2]),
    ("sampler", samplers, SAMPLERS, samplers.Sampler),
    ("probability", probabilities, PROBABILITIES, probabilities.Probability),
    ("solver", solvers, SOLVERS, solvers.CohortSolver),
    ("local solver", client_solvers, CLIENT_SOLVERS, client_solvers.LocalSolver),
    ("optimiser", optimisers, OPTIMISERS, optimisers.Optimiser),
    ("estimator", estimators, ESTIMATORS, estimators.Estimator),
    ("codec", codecs, CODECS, codecs.Codec),
]

WITHIN_ANOTHER = {algorithms.async_fedavg.AsyncFedAvg, Weighted, GradientStratified, solvers.AsCohortSolver}
"""The base of several designs, what `Stratified` becomes once it is fitted, and what makes a solver of an algorithm."""


def inside(example):
    """The algorithm of which a solver is made; any other example itself."""
    return example.algorithm if isinstance(example, solvers.AsCohortSolver) else example


@pytest.mark.parametrize(("table", "package", "examples", "base"), KINDS, ids=[kind[0] for kind in KINDS])
def test_everything_public_has_an_example(table, package, examples, base):
    made = {type(inside(example)) for example in examples.values()}
    named = {cls: name for name, cls in TABLES[table].items()}
    public = {cls for _, cls in inspect.getmembers(package, inspect.isclass) if issubclass(cls, base)}
    assert public - made <= {base, *WITHIN_ANOTHER}
    assert named.keys() <= made
    for name, example in examples.items():
        assert named.get(type(inside(example))) == name or name in ("gradient-stratified", "gradient-clustered")


def test_the_sampler_of_gradient_strata_is_among_the_examples():
    assert isinstance(SAMPLERS["gradient-stratified"].fit(small()), GradientStratified)
