"""The JSON schema of configurations: what is read is valid, and a mistake of one key is not."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from tests.experiment.test_config import CONFIGS, JUNK, parse
from tests.helpers.examples import ALGORITHMS
from turnout.experiment.schema import schema
from turnout.experiment.toml_file import flatten
from turnout.io.json_text import plain

FILES = Path(__file__).parents[2] / "examples"
VALIDATOR = jsonschema.Draft202012Validator(schema())


def is_valid(tables: dict) -> bool:
    return VALIDATOR.is_valid(tables)


@pytest.mark.slow
def test_the_schema_is_one():
    VALIDATOR.check_schema(VALIDATOR.schema)


@pytest.mark.parametrize("path", sorted(FILES.rglob("*.toml")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples_are_valid(path):
    tables = tomllib.loads(path.read_text())
    if "algorithm" in tables:
        assert is_valid(tables), next(VALIDATOR.iter_errors(tables)).message


@settings(max_examples=30)
@given(CONFIGS)
def test_what_is_written_is_valid(tables):
    assert is_valid(tables) and is_valid(tomllib.loads(parse(tables).to_toml()))


@settings(max_examples=30)
@given(CONFIGS, st.data())
def test_what_is_read_is_valid_whatever_it_is(tables, data):
    table = data.draw(st.sampled_from(sorted(tables)))
    if isinstance(tables[table], dict):
        key = data.draw(st.sampled_from(sorted(tables[table]) or ["kind"]))
        tables = {**tables, table: {**tables[table], key: data.draw(JUNK)}}
    else:
        tables = {**tables, table: data.draw(JUNK)}
    try:
        parse(tables, text="")
    except t.UserError:
        return
    assert is_valid(tables)


GOOD = {
    "problem": {"kind": "logistic", "data": "a6a"},
    "split": {"kind": "iid", "clients": 9},
    "sampler": {"kind": "nice", "size": 3},
    "algorithm": {"kind": "sppm", "gamma": 1.0, "solver": {"kind": "gd", "smoothness": 1.0}},
    "run": {"rounds": 5},
}
MISTAKES = {
    "unknown-table": {"runs": {}},
    "unknown-kind": {"sampler.kind": "niece"},
    "unknown-key": {"run.round": 5},
    "below-a-bound": {"run.rounds": -1},
    "not-above-a-bound": {"algorithm.gamma": 0.0},
    "no-whole-number": {"sampler.size": 2.5},
    "another-word": {"run.precision": "quadruple"},
    "text-for-a-number": {"algorithm.gamma": "one"},
    "in-a-table-inside": {"algorithm.solver.smoothness": -1.0},
    "unknown-kind-inside": {"algorithm.solver.kind": "dg"},
    "a-price-that-is-no-list": {"price": {"kind": "bytes"}},
}


@pytest.mark.parametrize("changes", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_refused_as_they_are_when_read(changes):
    flat = {**flatten(GOOD), **changes}
    tables: dict = {}
    for name, value in flat.items():
        *parents, key = name.split(".")
        table = tables
        for parent in parents:
            table = table.setdefault(parent, {})
        table[key] = value
    assert is_valid(GOOD) and not is_valid(tables)
    with pytest.raises(t.UserError):
        parse(tables, text="")


def test_every_key_of_every_table_that_is_needed_is_required():
    for name in ("problem", "sampler", "algorithm"):
        assert not is_valid({table: content for table, content in GOOD.items() if table != name})
    assert not is_valid({**GOOD, "sampler": {"kind": "nice"}})


@pytest.mark.parametrize("example", ALGORITHMS.values(), ids=ALGORITHMS)
def test_every_algorithm_as_it_is_written_is_valid(example):
    made = replace(parse(GOOD), algorithm=example.make(t.Nice(3))).tables()
    assert is_valid(json.loads(json.dumps(made, default=plain)))
