"""Saved models: what is in their files, and runs that begin there."""

import json
import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tomli_w
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import turnout as t
from tests.helpers.borders import border
from tests.helpers.commands import config
from turnout.core.errors import UserError
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.experiment.run import start
from turnout.io.models import encode_model, load_model, named_leaves

DTYPES = st.sampled_from([np.float32, np.float64, np.float16, jnp.bfloat16])
LEAVES = DTYPES.flatmap(
    lambda dtype: arrays.arrays(np.float32, arrays.array_shapes(min_dims=0, max_dims=3), elements=st.integers(-9, 9)).map(
        lambda array: array.astype(dtype)
    )
)
NAMES = st.text("abc_1.", min_size=1, max_size=4)
TREES = st.recursive(LEAVES, lambda tree: st.dictionaries(NAMES, tree, min_size=1, max_size=3), max_leaves=5)


@border(tree=TREES, further=st.dictionaries(NAMES, LEAVES, max_size=2))
def test_what_is_written_is_read_back_to_the_bit(folder, tree, further):
    """Also beside what the model needs further; names that would be one are refused."""
    path, paths = folder / "model.safetensors", [".".join(names) or "x" for names in paths_of(tree)]
    if len({*paths}) < len(paths):
        with pytest.raises(UserError, match="two parameters would be called"):
            encode_model(tree, {})
        return
    further = {name: leaf for name, leaf in further.items() if name not in paths}
    whole = {**named_leaves(tree), **further}
    path.write_bytes(encode_model(tree, {"seed": 3}, whole if further else None))
    back = load_model(path, tree)
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    for old, new in zip(jax.tree.leaves(tree), jax.tree.leaves(back), strict=True):
        assert old.dtype == new.dtype
        np.testing.assert_array_equal(old, new)
    with safe_open(path, "flax") as file:
        facts = {"seed": 3} | ({"further": sorted(further)} if further else {})
        assert {*file.keys()} == {*whole} and json.loads(file.metadata()["turnout"]) == facts


def paths_of(tree, path=()) -> list[tuple]:
    """Return the names on the way to each leaf."""
    if not isinstance(tree, dict):
        return [path]
    return [found for name, part in tree.items() for found in paths_of(part, (*path, name))]


def quadratic():
    generator = np.random.default_rng(0)
    return t.Quadratic.of(generator.uniform(0.5, 2, (4, 3)), generator.normal(size=(4, 3)))


@pytest.mark.tiers(quick=[], longer=["nodes"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_a_run_goes_on_from_a_model(tmp_path, engine):
    problem, algorithm, path = quadratic(), t.MbGd(t.Full(), lr=0.2), tmp_path / "model.safetensors"
    t.run(algorithm, problem, rounds=3).save_model(path)
    whole = t.run(algorithm, problem, rounds=7).x
    np.testing.assert_array_equal(t.run(algorithm, problem, rounds=4, start=path, engine=engine).x, whole)
    swept = t.sweep(algorithm, problem, {"lr": [0.1, 0.2]}, rounds=4, seeds=[5], start=load_model(path, np.zeros(3)))
    np.testing.assert_allclose(swept.traces[1].x, whole, rtol=1e-14)


GOOD = {"hidden.weight": np.ones((2, 3)), "bias": np.zeros(2)}
LIKE = {"hidden": {"weight": jnp.zeros((2, 3))}, "bias": jnp.zeros(2)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden.weight": None}, "it has no 'hidden.weight', and the problem's has one"),
        ({"more": np.ones(1)}, "it has an array 'more', and the problem's has none"),
        ({f"more{k}": np.ones(1) for k in range(10)}, "it has an array 'more0'"),
        ({"bias": np.zeros(3)}, r"'bias' has the shape \(3,\) there, \(2,\) here"),
        ({"bias": np.zeros(2, int)}, "'bias' is int64 there, float64 here"),
        ({"bias": np.array([0, np.nan])}, "'bias' in .* holds NaN or infinite numbers"),
        ({"bias": np.array([0, np.inf])}, "holds NaN or infinite numbers"),
    ],
)
def test_another_architecture_or_broken_numbers_are_refused(tmp_path, change, words):
    path = tmp_path / "model.safetensors"
    save_file({name: array for name, array in {**GOOD, **change}.items() if array is not None}, path)
    with pytest.raises(t.UserError, match=words):
        load_model(path, LIKE)


def test_what_is_no_such_file_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(t.UserError, match=r"cannot be read \(No such file or directory\)"):
        load_model(path, LIKE)
    with pytest.raises(t.UserError, match=r"cannot be read \(Is a directory\)"):
        load_model(tmp_path, LIKE)
    path.write_bytes(b"PK\x03\x04 a file of another kind")
    with pytest.raises(t.UserError, match="is not a safetensors file"):
        load_model(path, LIKE)
    save_file(GOOD, path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(t.UserError, match="is not a safetensors file"):
        load_model(path, LIKE)


@pytest.mark.slow
def test_a_folder_holds_one_that_another_run_begins_at(tmp_path):
    quiet = lambda session: None  # noqa: E731
    network = {"kind": "network", "data": "breast_cancer", "normalize": "columns", "hidden": 3}
    first = config(tmp_path, problem=network, run={"rounds": 2, "metrics": ["value"]}, target={"metric": "value", "below": 1e-9})
    start(read(first), tmp_path / "first", None, quiet, "test")
    path = tmp_path / "first" / "model.safetensors"
    held = load_file(path)
    assert held["hidden.weight"].shape == (30, 3) and {"hidden.bias", "output.weight", "output.bias"} < {*held}
    with safe_open(path, "np") as file:
        facts = json.loads(file.metadata()["turnout"])
    assert facts["algorithm"] == "fedavg" and facts["problem"] == "network" and facts["seed"] == 0 and facts["round"] == 2
    tables = tomllib.loads(first.read_text())
    tables["run"]["start"] = str(path)
    second = tmp_path / "second.toml"
    second.write_text(tomli_w.dumps(tables))
    experiment = read(second)
    session = session_of(experiment, build(experiment, None))
    np.testing.assert_array_equal(session.engine.job.start["hidden"]["weight"], held["hidden.weight"])
    before = build(experiment, None).digest(experiment)
    save_file({**held, "output.bias": held["output.bias"] + 1}, path)
    assert build(experiment, None).digest(experiment) != before
    last = json.loads((tmp_path / "first" / "summary.json").read_text())["metrics"]["value"]
    save_file(held, path)
    assert session_of(experiment, build(experiment, None)).run().trace.columns["value"][0] == last
