"""The tables and the figure of Cohort Squeeze's own, on small sets in all formats of rows."""

import importlib.util

import numpy as np
import polars as pl
import pytest

import turnout as t
from turnout.studies.papers import PAPERS

SPEC = importlib.util.spec_from_file_location("squeeze", PAPERS / "cohort-squeeze" / "exhibits.py")
squeeze = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(squeeze)

FORMATS = {"dense": (12, 0.5), "narrow": (12, 1.0), "sparse": (300, 0.5)}
"""Columns of each set, and the least value of an entry: small whole numbers are stored in a byte each."""


@pytest.fixture(scope="module")
def exhibits(tmp_path_factory):
    """Of 90 rows with three entries each, in three clusters, whose entries are in other columns, of eight clients."""
    folder, generator, problems = tmp_path_factory.mktemp("rows"), np.random.default_rng(0), {}
    for name, (width, unit) in FORMATS.items():
        lines = []
        for row in range(90):
            columns = np.sort(generator.choice(4, 3, replace=False)) + row % 3 * (width // 3) + 1
            entries = (f"{column}:{unit * generator.integers(3, 6)}" for column in columns)
            lines.append(f"{1 - 2 * (row % 2)} {' '.join(entries)}")
        (folder / name).write_text("\n".join(lines) + "\n")
        problems[name] = {
            "problem": {"kind": "logistic", "data": str(folder / name), "mu": 0.1},
            "split": {"kind": "kmeans", "clusters": 3, "clients_per_cluster": 8},
            "sampler": "stratified",
        }
    methods = {"gd": {"algorithm": {"kind": "mbgd", "lr": 0.1}}}
    study = t.study({"run": {"rounds": 1}, "problems": problems, "methods": methods})
    return {shown.name: shown for shown in squeeze.exhibits(study)}


@pytest.mark.slow
def test_the_figure_shows_each_row_with_its_cluster(exhibits):
    values = exhibits["figure-5"].chart["data"]["values"]
    for name in FORMATS:
        clusters = [value["cluster"] for value in values if value["set"] == name]
        assert len(clusters) == 90 and {*clusters} == {0, 1, 2}


@pytest.mark.slow
def test_a_larger_gamma_means_fewer_rounds_and_a_larger_neighbourhood(exhibits):
    """As the caption of table 3 says, of the strata; table 4 has the same samplings for each problem."""
    for name in FORMATS:
        rows = exhibits["table-3"].frame.filter(pl.col("problem") == name)
        assert rows["T"][: len(squeeze.GAMMAS)].is_sorted(descending=True)
        assert rows["neighbourhood"][: len(squeeze.GAMMAS)].is_sorted()
    assert exhibits["table-4"].frame.group_by("problem").len()["len"].n_unique() == 1
