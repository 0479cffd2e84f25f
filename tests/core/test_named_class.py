"""Classes of the user's own by name: they go through runs, resumed runs, descriptions and reports like ours."""

import tomllib
from pathlib import Path

import polars as pl
import pytest

from tests.helpers.commands import SMALL, config, turnout
from tests.studies.test_study import OWN
from turnout.core.errors import UserError
from turnout.core.named_class import name_of, named_class
from turnout.report.loaded_run import Result


@pytest.fixture
def own(tmp_path) -> Path:
    (tmp_path / "mine.py").write_text(OWN)
    price = {"kind": "mine.py:PerContact", "each": 2.0}
    return config(tmp_path, algorithm={"kind": "mine.py:Steps", "lr": 0.3}, price=[{"kind": "exchanges"}, price])


def test_a_class_of_a_file_is_found_again_from_any_folder(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    found = named_class("mine.py:Steps", tmp_path)
    assert named_class(name_of(found), Path("/")) is found and name_of(found) == f"{tmp_path / 'mine.py'}:Steps"
    assert named_class("turnout:Nice", tmp_path).__name__ == "Nice"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1 +\n", "cannot be imported .invalid syntax"),
        ("import none_such\n", "No module named 'none_such'"),
        ("1 / 0\n", "zero"),
    ],
)
def test_a_file_that_cannot_be_imported_is_one_sentence(tmp_path, text, words):
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(UserError, match=f"bad.py {words}|bad.py cannot be imported .*{words}") as error:
        named_class("bad.py:Steps", tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_an_algorithm_and_a_price_of_ones_own_run_like_ours_and_are_repeated_from_the_results(tmp_path, own):
    ours = config(tmp_path, "ours")
    for path, out in ((own, "own"), (ours, "ours")):
        code, _, wrong = turnout("run", path, "--out", tmp_path / out)
        assert (code, wrong) == (0, ""), wrong
    written = tomllib.loads((tmp_path / "own" / "config.toml").read_text())
    assert written["algorithm"]["kind"] == f"{tmp_path / 'mine.py'}:Steps"
    assert turnout("run", tmp_path / "own" / "config.toml", "--out", tmp_path / "again")[0] == 0
    traces = [pl.read_parquet(tmp_path / out / "trace.parquet") for out in ("own", "ours", "again")]
    assert traces[0].equals(traces[1]) and traces[0].equals(traces[2])
    result = Result.read(tmp_path / "own")
    last = result.trace[-1 if result.hit is None else result.hit]
    assert [result.cost(price) for price in result.prices] == [last["exchanges"].item(), 2 * last["contacts"].item()]
    assert "contacts(2)" in (tmp_path / "own" / "report.html").read_text()


@pytest.mark.longer
def test_a_description_is_that_of_ours(tmp_path, own):
    described = [turnout("describe", path) for path in (own, config(tmp_path, "made2", **SMALL))]
    assert all(code == 0 for code, *_ in described) and "contacts(2)" in described[0][1]
