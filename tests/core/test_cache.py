"""The cache folder: what is kept comes back to the last bit, and what is not whole, or in the way, changes no result."""

import logging
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import turnout as t
from turnout.core import cache
from turnout.core.kept import kept
from turnout.data import KMeansSplit, load
from turnout.problems.at_optimum import at_optimum
from turnout.problems.optimum import solve


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    return tmp_path


class Computed:
    """A computation that counts its calls."""

    def __init__(self, *results):
        self.results, self.calls = results, 0

    def __call__(self) -> list[np.ndarray]:
        self.calls += 1
        return [*self.results]


KINDS, SHAPES = st.sampled_from([np.float64, np.int32, np.uint8]), st.sampled_from([(), (3,), (2, 0), (2, 3)])
ARRAYS = st.lists(arrays(KINDS, SHAPES), max_size=3)


@pytest.mark.longer
@given(results=ARRAYS, parts=st.lists(st.integers() | st.text(max_size=5) | st.floats(), max_size=3))
@settings(max_examples=30)
def test_what_is_kept_is_what_was_computed(tmp_path_factory, results, parts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cache.VARIABLE, str(tmp_path_factory.mktemp("cache")))
        compute = Computed(*results)
        first, second = (kept("made", parts, ("numpy",), compute) for _ in range(2))
    assert compute.calls == 1
    for a, b, result in zip(first, second, results, strict=True):
        assert a.dtype == b.dtype == result.dtype and a.shape == b.shape
        np.testing.assert_array_equal(b, result)


DAMAGES = {
    "cut": lambda content: content[:-1],
    "empty": lambda content: b"",
    "changed": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_file_that_is_not_whole_is_computed_anew(folder, damage):
    compute = Computed(np.arange(5.0))
    kept("made", (1,), (), compute)
    (file,) = (folder / "values").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    np.testing.assert_array_equal(kept("made", (1,), (), compute)[0], np.arange(5.0))
    kept("made", (1,), (), compute)
    assert compute.calls == 2


def test_what_determines_a_value_tells_it_from_others(folder):
    a = np.arange(6.0)
    different = [(a,), (a.astype("float32"),), (a.reshape(2, 3),), (a, 1), (a, 1.0), (a, "1"), (a + 1,)]
    for number, parts in enumerate(different):
        assert kept("made", parts, (), Computed(np.array(number)))[0] == number
    assert [int(kept("made", parts, (), Computed())[0]) for parts in different] == [*range(len(different))]


def test_nothing_is_kept_where_it_is_off(folder, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, "off")
    compute = Computed(np.zeros(1))
    kept("made", (), (), compute), kept("made", (), (), compute)
    assert compute.calls == 2 and not [*folder.iterdir()]


def test_a_setting_wins_over_the_environment(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_chosen", [])
    t.set_cache(tmp_path / "chosen")
    assert cache.cache_folder() == tmp_path / "chosen"
    t.set_cache(None)
    assert cache.cache_folder() is None


def test_a_folder_that_cannot_be_written_is_told_once_and_in_nobodys_way(folder, caplog):
    (folder / "values").touch()
    compute = Computed(np.zeros(1))
    with caplog.at_level(logging.WARNING, "turnout"):
        kept("made", (), (), compute), kept("made", (), (), compute)
    assert compute.calls == 2 and [record.getMessage().count("set TURNOUT_CACHE") for record in caplog.records] == [1]


def test_the_least_recently_used_go_first_whatever_the_clock_said(folder):
    for age, name in enumerate(["new", "older", "oldest"]):
        (folder / name).write_bytes(bytes(10))
        os.utime(folder / name, (1e9 - age, 1e9 - age))
    (folder / "future").write_bytes(bytes(10))
    os.utime(folder / "future", (4e9, 4e9))
    cache.evict(folder, 20)
    assert {path.name for path in folder.iterdir()} == {"future", "new"}
    cache.evict(folder, 0)
    assert not [*folder.iterdir()]


@pytest.mark.slow
def test_data_splits_and_optima_are_the_same_with_and_without(folder, monkeypatch):
    data, split = load("iris").normalized("columns"), KMeansSplit(clusters=3, clients_per_cluster=2)
    first, again = split.split(data), split.split(data)
    problem = t.Ridge.of(load("diabetes").normalized("columns"), KMeansSplit(2, 2).split(load("diabetes")), mu=0.1)
    optima, derivatives = [solve(problem), solve(problem)], [at_optimum(problem), at_optimum(problem)]
    assert any(path.name.startswith("derivatives") for path in folder.rglob("*"))
    monkeypatch.setenv(cache.VARIABLE, "off")
    for other in (again, split.split(data)):
        np.testing.assert_array_equal(first.indices, other.indices)
        np.testing.assert_array_equal(first.offsets, other.offsets)
    for optimum in (optima[1], solve(problem)):
        np.testing.assert_array_equal(optimum.x, optima[0].x)
        assert optimum.value == optima[0].value
    for other in (derivatives[1], at_optimum(problem)):
        jax.tree.map(np.testing.assert_array_equal, other, derivatives[0])
    np.testing.assert_array_equal(data.features, load("iris").normalized("columns").features)


PROGRAM = """
import hashlib, jax, numpy as np
import turnout as t
compiled = []
jax.monitoring.register_event_listener(lambda event, **_: compiled.append(event) if event.endswith("cache_misses") else None)
run = t.run(t.FedAvg(t.Nice(2), lr=0.05), t.Quadratic.random(4, 3), rounds=3)
print(len(compiled), hashlib.sha256(np.asarray(run.x).tobytes()).hexdigest())
"""
"""A run, which says how many programs were not found and what its parameters are."""


@pytest.mark.longer
def test_programs_are_kept_and_change_no_bit(tmp_path):
    def play(where) -> tuple[str, str, str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
        environment[cache.VARIABLE] = str(where)
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
        return *done.stdout.split(), done.stderr

    (first, parameters, _), (second, again, silent) = play(tmp_path), play(tmp_path)
    assert int(first) > 0 and int(second) == 0 and parameters == again and silent == ""
    (programs,) = tmp_path.glob("programs-*")
    for entry in programs.iterdir():
        entry.write_bytes(entry.read_bytes()[:100])
    _, third, silent = play(tmp_path)
    assert third == parameters and silent == ""
    assert play("off")[1] == parameters
