"""Small federations, and how tests play them."""

import itertools

import numpy as np
import pytest

import turnout as t
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.runs.session import Session

ENGINES = pytest.mark.parametrize("engine", ["compiled", "nodes"])
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
RARE = 1e-3
"""How rarely chance alone fails a test."""


def four() -> t.Problem:
    """Four clients, three unknowns, unequal weights."""
    return t.Quadratic.of(*t.Quadratic.random(4, 3, seed=5).rows, weights=SHARES)


def with_rows() -> t.Problem:
    """Four clients with three or four rows each."""
    generator, bounds = np.random.default_rng(2), np.cumsum([0, 4, 3, 4, 3])
    dataset = Dataset("made", generator.normal(size=(14, 5)), np.where(generator.normal(size=14) > 0, 1.0, -1.0))
    return t.Logistic.of(dataset, Split(np.arange(14), bounds), mu=0.1, weights=SHARES)


def play(algorithm, problem, rounds, **options) -> Session:
    session = Session(algorithm, problem, seeds=t.Seeds.of(3), rounds=rounds, **options)
    return session.run()


def counted(session) -> dict:
    return {row["path"]: row for row in session.trace.ledger.rows()}


def adaptive(**options) -> t.Independent:
    return t.Independent(size=2.0, probability=t.KVib(rounds=50), **options)


Q = np.array([0.9, 0.5, 0.25, 1.0])
VECTORS = np.random.default_rng(4).normal(size=(4, 3))


def subsets():
    return (np.array(which) for which in itertools.product([False, True], repeat=4))


def chance(which, p) -> float:
    return np.prod(np.where(which, p, 1 - p))
