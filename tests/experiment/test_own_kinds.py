"""Classes of the user's own in every table of a configuration."""

from pathlib import Path

import pytest
import tomli_w

import turnout as t
from turnout.experiment.build import build
from turnout.experiment.config import Reader
from turnout.experiment.registry import BASES, METHODS, TABLES

PARTS = """\
import numpy as np

import turnout as t
from turnout.data.splits import Split
from turnout.experiment.problem_specs import LogisticSpec


@t.record
class Pairs(t.Nice):
    "Two clients."


@t.record
class Descent(t.solvers.GradientDescent):
    "Gradient descent by another name."


@t.record
class Steps(t.client_solvers.Gradient):
    "Steps by another name."


@t.record
class Slow(t.optimisers.Sgd):
    "Steps of half the length."


@t.record
class Halves:
    "Two clients with half of the rows each."

    def split(self, dataset):
        return Split.of(np.array_split(np.arange(dataset.rows), 2), dataset.rows)


@t.record
class Bowl:
    "Quadratics."

    clients: int = 4

    def build(self):
        return t.Quadratic.random(self.clients, 3)

    def split(self):
        return Split.of(list(np.arange(self.clients)[:, None]), self.clients)


@t.record
class Strict(LogisticSpec):
    "Logistic regression with a large mu by default."

    mu: float = 1.0
"""

BASE = {
    "problem": {"kind": "mine.py:Strict", "data": "breast_cancer"},
    "split": {"kind": "mine.py:Halves"},
    "sampler": {"kind": "mine.py:Pairs", "size": 2},
    "algorithm": {"kind": "sppm", "gamma": 1.0, "solver": {"kind": "mine.py:Descent", "smoothness": 3.0}},
}


def parse(folder: Path, tables: dict):
    (folder / "mine.py").write_text(PARTS)
    return Reader(str(folder / "made.toml"), tomli_w.dumps(tables), tables).experiment("made")


def test_every_table_takes_a_class_of_ones_own_and_is_written_with_its_file(tmp_path):
    experiment = parse(tmp_path, BASE)
    assert [type(part).__name__ for part in (experiment.problem, experiment.split, experiment.algorithm.sampler)] == [
        "Strict", "Halves", "Pairs",
    ]  # fmt: skip
    assert type(experiment.algorithm.solver).__name__ == "Descent" and experiment.algorithm.solver.smoothness == 3.0
    built = build(experiment, None)
    assert built.problem.mu == 1.0 and built.problem.clients == 2
    written = experiment.tables()
    assert written["algorithm"]["solver"]["kind"] == f"{tmp_path / 'mine.py'}:Descent"
    assert Reader("/elsewhere.toml", "", written).experiment("made") == experiment
    for algorithm in (
        {"kind": "fedprox-sppm", "gamma": 1.0, "solver": {"kind": "mine.py:Steps", "lr": 0.1}},
        {
            "kind": "fedopt",
            "optimiser": {"kind": "mine.py:Slow", "lr": 0.1},
            "server_optimiser": {"kind": "mine.py:Slow", "lr": 1},
        },
    ):
        found = parse(tmp_path, BASE | {"algorithm": algorithm}).algorithm
        assert {type(part).__name__ for part in vars(found).values()} & {"Steps", "Slow"}


def test_a_problem_without_data_has_build_and_split(tmp_path):
    tables = {"problem": {"kind": "mine.py:Bowl", "clients": 5}, "sampler": "full", "algorithm": {"kind": "gd", "lr": 0.1}}
    built = build(parse(tmp_path, tables), None)
    assert isinstance(built.problem, t.Quadratic) and built.problem.clients == len(built.split.sizes) == 5


@pytest.mark.parametrize(
    ("table", "kind", "words"),
    [
        ("problem", "mine.py:Pairs", "is no problem: it must extend DataSpec or have build, split"),
        ("split", "mine.py:Pairs", "is no split: it must have split"),
        ("sampler", "mine.py:Bowl", "is no sampler: it must extend Sampler"),
        ("sampler", "mine.py:", "has no class ''"),
    ],
)
def test_a_class_of_another_table_is_one_sentence(tmp_path, table, kind, words):
    with pytest.raises(t.UserError, match=words):
        parse(tmp_path, BASE | {table: {"kind": kind}})


def test_every_table_says_what_a_class_of_ones_own_must_be():
    assert set(TABLES) == {*BASES, *METHODS}
    for table, kinds in TABLES.items():
        for cls in kinds.values():
            assert issubclass(cls, BASES.get(table, ())) or all(hasattr(cls, name) for name in METHODS[table]), (table, cls)
