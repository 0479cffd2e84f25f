"""A plain installation: what it plays, and what it says where an extra is missing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.commands import config, turnout
from turnout.data import Dataset, KMeansSplit, load
from turnout.data.columns import hashed
from turnout.report.pictures import write_charts
from turnout.report.vega import script_ahead
from turnout.samplers.clustering import balanced_strata, kmeans_strata

LEFT_OUT = ("altair", "h5py", "joblib", "narwhals", "scikit_learn", "sklearn", "threadpoolctl", "vl_convert")
"""How the names of what a plain installation has not begin."""

MADE = """
problem = { kind = "log-sum", clients = 4, dimension = 3 }
sampler = "full"
algorithm = { kind = "gd", lr = 0.1 }
run = { rounds = 3 }
"""

STUDY = {
    "seeds": 2,
    "pictures": True,
    "run": {"rounds": 3},
    "problems": {"made": t.Quadratic.random(4, 3)},
    "methods": {"gd": t.Gd(t.Full(), lr=0.1)},
    "goals": {"near": {"metric": "gradient", "share": 0.9}},
}

VEGA = r"vl_convert .*: pip install 'turnout\[report\]'"


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> dict[str, str]:
    """The variables of a process for which some packages are not installed."""
    folder, site = tmp_path_factory.mktemp("plain"), Path(jax.__file__).parents[1]
    for entry in site.iterdir():
        if not entry.name.startswith(LEFT_OUT):
            (folder / entry.name).symlink_to(entry)
    return {**os.environ, "PYTHONPATH": f"{Path(t.__file__).parents[1]}:{folder}"}


@pytest.fixture
def blocked(monkeypatch):
    """Let imports of what the extras install fail, in this process."""
    for name in ("altair", "sklearn.cluster", "sklearn.datasets", "sklearn.feature_extraction.text", "vl_convert"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("TURNOUT_CACHE", "off")
    # As in another process.
    script_ahead.cache_clear()


@pytest.mark.slow
def test_a_run_needs_no_extra_but_for_its_report(plain, tmp_path):
    file, out = tmp_path / "made.toml", tmp_path / "out"
    file.write_text(MADE)
    command = [sys.executable, "-S", "-m", "turnout", "run", str(file), "--out", str(out)]
    done = subprocess.run(command, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (sentence,) = (line for line in done.stderr.splitlines() if "report.html" in line)
    assert "pip install 'turnout[report]', and turnout resume" in sentence and "report" not in done.stdout
    files = {"config.toml", "figures.json", "model.safetensors", "summary.json", "trace.parquet"}
    assert files <= {path.name for path in out.iterdir()} and not (out / "report.html").exists()
    assert turnout("resume", out)[0] == 0
    assert "vega" in (out / "report.html").read_text()


@pytest.mark.longer
def test_a_study_writes_everything_but_its_page_and_pictures(blocked, tmp_path):
    (tmp_path / "report.html").write_text("of an earlier study")
    with pytest.warns(t.Caution, match=f"report.html is not written: .*{VEGA}, and the same command writes it"):
        played = t.study(STUDY, tmp_path)
    assert (tmp_path / "summary.json").exists() and [*(tmp_path / "tables").iterdir()]
    assert not (tmp_path / "report.html").exists() and not (tmp_path / "figures").exists()
    shown = played._repr_html_()
    assert "pip install &#x27;turnout[report]&#x27;" in shown and "<table" in shown


def test_a_command_with_bundled_data_says_what_to_install(blocked, tmp_path):
    code, _, said = turnout("run", config(tmp_path), "--out", tmp_path / "out")
    assert code == 2 and said.count("\n") == 1 and "pip install 'turnout[data]'" in said


def chart():
    return t.run(t.Gd(t.Full(), lr=0.1), t.Quadratic.random(2, 2), rounds=1).chart()


DATA = Dataset("made", np.eye(8), np.arange(8) % 2)
NEEDING = {
    "bundled": (lambda: load("iris"), r"data set iris needs sklearn.datasets .*: pip install 'turnout\[data\]'"),
    "split": (lambda: KMeansSplit(2, 2).split(DATA), r"split 'kmeans' needs .*\[data\]"),
    "strata": (lambda: kmeans_strata(DATA.features, 2, 0), r"k-means of clients needs .*\[data\]"),
    "balanced strata": (lambda: balanced_strata(DATA.features, 2), r"k-means of clients needs .*\[data\]"),
    "texts": (lambda: hashed(["one text"]), r"a column of texts needs .*\[data\]"),
    "chart": (chart, r"a chart needs altair .*: pip install 'turnout\[report\]'"),
}


@pytest.mark.parametrize(("what", "words"), NEEDING.values(), ids=NEEDING)
def test_what_needs_an_extra_says_so(blocked, what, words):
    with pytest.raises(t.UserError, match=words):
        what()


def test_pictures_say_so_before_a_process_starts(blocked, tmp_path):
    write_charts(tmp_path, {"one": {}})
    code, _, said = turnout("figures", tmp_path)
    assert code == 2 and re.search(VEGA, said) and not (tmp_path / "figures").exists()
