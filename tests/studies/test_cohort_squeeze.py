"""The tables and the figure of Cohort Squeeze's own, on small sets in all formats of rows."""

import importlib.util

import numpy as np
import polars as pl
import pytest

import turnout as t
from tests.helpers.commands import SMALL
from turnout.studies.papers import PAPERS


def part(name: str):
    """A file of the study as a module."""
    spec = importlib.util.spec_from_file_location(name, PAPERS / "cohort-squeeze" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


squeeze = part("exhibits")

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


@pytest.mark.everything
def test_the_figure_shows_each_row_with_its_cluster(exhibits):
    values = exhibits["figure-5"].chart["data"]["values"]
    for name in FORMATS:
        clusters = [value["cluster"] for value in values if value["set"] == name]
        assert len(clusters) == 90 and {*clusters} == {0, 1, 2}


@pytest.mark.everything
def test_a_larger_gamma_means_fewer_rounds_and_a_larger_neighbourhood(exhibits):
    """As the caption of table 3 says, of the strata; table 4 has the same samplings for each problem."""
    for name in FORMATS:
        rows = exhibits["table-3"].frame.filter(pl.col("problem") == name)
        assert rows["T"][: len(squeeze.GAMMAS)].is_sorted(descending=True)
        assert rows["neighbourhood"][: len(squeeze.GAMMAS)].is_sorted()
    assert exhibits["table-4"].frame.group_by("problem").len()["len"].n_unique() == 1


@pytest.mark.slow
def test_findings_compare_the_methods_that_are_played():
    """SPPM against LocalGD under both samplings, one of each played, on a set under both conventions."""
    made = {name: SMALL[name] for name in ("problem", "split", "sampler")}
    algorithms = {
        "localgd-nice": {"kind": "fedavg", "lr": 0.1},
        "localgd-stratified": {"kind": "fedavg", "lr": 0.2},
        "sppm-bfgs": {"kind": "sppm", "solver": "bfgs", "gamma": 1.0, "inner": 3},
    }
    study = t.study({
        "seeds": 5,
        "run": {"rounds": 60},
        "problems": {"made": made, "made-rows": made},
        "methods": {name: {"algorithm": each} for name, each in algorithms.items()},
        "goals": {"near": {"metric": "distance", "below": 0.3}},
        "prices": {"exchanges": {"kind": "exchanges"}, "hubs, 0.1": {"kind": "hierarchical", "c1": 0.1, "c2": 1.0}},
    })  # fmt: skip
    flat, hubs = (study.best("near", price).filter(problem="made") for price in study.declaration.prices)
    said = part("findings").Costs(study).everywhere()
    for k, (frame, rival) in enumerate((each, name) for name in [*algorithms][:2] for each in (flat, hubs)):
        mine, other = (frame.row(by_predicate=pl.col("method") == name, named=True)["cost"] for name in ("sppm-bfgs", rival))
        assert np.isfinite([mine, other]).all()
        for sentence in (said[k], said[k + 4]):
            assert f"{100 * (1 - mine / other):.1f} % on made." in sentence
