"""The table of K-Vib's study against the runs themselves."""

import importlib.util

import numpy as np
import polars as pl
import pytest

import turnout as t
from turnout.studies.cases import Cases
from turnout.studies.papers import PAPERS


def part(name: str):
    """A file of the study as a module."""
    spec = importlib.util.spec_from_file_location(name, PAPERS / "k-vib" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def study():
    """Two samplers and full participation on eight clients, by the study's own names."""
    algorithm = {"kind": "mbgd", "lr": 0.05}
    return t.study({
        "seeds": 3,
        "run": {"rounds": 20, "metrics": ["gradient", "variance", "regret"]},
        "grid": {"sampler.size": [2, 4]},
        "problems": {"made": {"problem": {"kind": "log-sum", "clients": 8, "dimension": 4, "similarity": 5.0}}},
        "methods": {
            "uniform": {"algorithm": algorithm, "sampler": {"kind": "independent", "size": 2}},
            "size": {"algorithm": algorithm, "sampler": {"kind": "nice", "size": 2}},
            "full": {"algorithm": algorithm, "sampler": "full", "grid": {"sampler.size": []}},
        },
        "goals": {"half of the loss": {"metric": "gradient", "share": 0.5}},
        "prices": {"exchanges": {"kind": "exchanges"}, "contacts": {"kind": "linear", "contacts": 1.0}},
    })  # fmt: skip


@pytest.mark.everything
def test_the_table_has_the_costs_and_variances_of_the_runs(study):
    (table,) = part("exhibits").exhibits(study)
    assert table.frame.select("sampler", "K").rows() == [
        ("uniform", "2"), ("uniform", "4"), ("size", "2"), ("size", "4"), ("full", "–")
    ]  # fmt: skip
    for row in table.frame.iter_rows(named=True):
        k = pl.col("sampler.size") == float(row["K"]) if row["K"] != "–" else pl.col("sampler.size").is_null()
        runs = [run for _, run in study.runs.filter(k, method=row["sampler"]).partition_by("seed", as_dict=True).items()]
        near = [run.filter(pl.col("gradient") <= 0.5 * run["gradient"][0]) for run in runs]
        for price in ("exchanges", "contacts"):
            cost = sorted(np.inf if run.is_empty() else run[price][0] for run in near)[1]
            assert row[price].startswith("never (" if np.isinf(cost) else f"{cost} (")
        means = np.array([run["variance"][1:].mean() for run in runs])
        mean, error = (float(word) for word in row["variance"].split(" ± "))
        assert mean == pytest.approx(means.mean(), rel=1e-2)
        assert error == pytest.approx(means.std(ddof=1) / np.sqrt(3), rel=0.1, abs=1e-12)


@pytest.mark.slow
def test_full_participation_alone_has_no_findings_about_k(study):
    alone = t.Study(study.declaration, study.runs.filter(pl.col("method") == "full"), (), Cases(None))
    assert part("findings").Samplers(alone).sentences() == []
