"""The regime map of cost-aware client selection: a part of it against NumPy, and its sentences against a small study's costs."""

import importlib.util
import math

import numpy as np
import polars as pl
import pytest

import turnout as t
from turnout.data import quadratics
from turnout.studies.papers import PAPERS, paper

SPEC = importlib.util.spec_from_file_location("regimes", PAPERS / "cost-aware-regimes" / "findings.py")
regimes = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(regimes)

SELECTIONS = 10
"""Arbitrary selections of a full pass over 100 clients, 10 at a time."""


def rounds_of_descent(lr: float) -> int:
    """Rounds of gradient descent to 1e-6 of the first |grad f|^2 on the quadratics of eigenvalues in [1, 100], delta = 1."""
    matrices, vectors = quadratics(100, 100, similarity=1.0)
    x, length, first = np.full(100, 10.0), lr / matrices.max(), None
    for number in range(1001):
        gradient = matrices.mean(0) * x - vectors.mean(0) + 0.1 * np.sign(x) / (1 + 0.1 * np.abs(x))
        first = gradient @ gradient if first is None else first
        if gradient @ gradient <= 1e-6 * first:
            return number
        x = x - length * gradient
    return 10**9


@pytest.mark.longer
def test_gradient_descent_costs_what_a_numpy_program_needs():
    study = t.study(paper("cost-aware-regimes"), problems=["steep-1"], methods=["gd"])
    for price, ratio in (("C_A = 1", 1), ("C_A = 20", 20)):
        costs = dict(study.costs("to-1e-6", price).select("algorithm.lr", "cost").iter_rows())
        for step in (0.7, 1.0, 1.4, 1.9):
            assert costs[step] == SELECTIONS * ratio * rounds_of_descent(step)


@pytest.mark.parametrize(
    ("row", "steps"),
    [
        ({"method": "rg-saga", "algorithm.steps": 10, "algorithm.probability": None}, 10),
        ({"method": "fedred", "algorithm.steps": None, "algorithm.probability": 0.01}, 100),
        ({"method": "saber-full", "algorithm.solver.steps": 20, "algorithm.estimator.probability": 0.1}, 20),
        ({"method": "feddyn", "algorithm.solver": "exact", "algorithm.solver.steps": None}, math.inf),
        ({"method": "gd", "algorithm.lr": 1.0}, 1),
    ],
)
def test_local_steps_of_a_setting(row, steps):
    assert regimes.budget(row) == pytest.approx(steps)


@pytest.mark.parametrize(("size", "rival"), [(4, "FedRed"), (20, "FedRed"), (4, "I-CGM-RG-SVRG"), (4, "SABER-full")])
def test_by_the_theorems_orders_rg_saga_leads_at_every_price(size, rival):
    """C_R (Delta_1 + sqrt(n_m) delta_m) is at most C_A n_m Delta_1, C_R Delta_1 + sqrt(C_A C_R n_m) delta_m and C_A (Delta_max +
    sqrt(n_m) delta_m) for all C_A >= C_R.
    """
    problem = {"kind": "log-sum", "clients": 20, "dimension": 6, "similarity": 5.0}
    assert regimes.crossing({"problem": problem, "sampler": {"kind": "nice", "size": size}}, rival) == 1


SMALL = {
    "seeds": 2,
    "run": {"rounds": 60},
    "problems": {
        "made": {
            "problem": {"kind": "log-sum", "clients": 10, "dimension": 8, "alpha": 0.1, "similarity": 5.0},
            "sampler": {"kind": "nice", "size": 2},
        }
    },
    "methods": {
        "rg-saga": {
            "algorithm": {"kind": "icgm", "estimator": {"kind": "rg-saga"}, "lam": 10.0, "steps": 10},
            "grid": {
                "algorithm.estimator.passes": [0, 1],
                "algorithm.estimator.beta": [0.2, 0.5],
                "algorithm.lam": [5.0, 10.0],
                "algorithm.steps": [10, 100],
            },
        },
        "fedred": {
            "algorithm": {"kind": "fedred", "lam": 5.0, "smoothness": 100.0},
            "grid": {"algorithm.probability": [0.1, 0.02]},
        },
        "gd": {"algorithm": {"kind": "gd", "lr": 0.01}},
        "lazy-dane": {"algorithm": {"kind": "lazy-dane"}},
    },
    "goals": {"to-1e-6": {"metric": "gradient", "share": 1e-6}},
    "prices": {f"C_A = {ratio}": {"kind": "selection", "arbitrary": float(ratio)} for ratio in (1, 5, 20)},
}


@pytest.mark.everything
def test_the_sentences_say_what_the_costs_say():
    study = t.study(SMALL)
    sentences = regimes.findings(study)
    dear = study.costs("to-1e-6", "C_A = 20")

    def least(where) -> float:
        return float(np.min(dear.filter(where)["cost"].to_numpy()))

    cell = next(sentence for sentence in sentences if "the cheapest and the next" in sentence)
    saga = pl.col("method") == "rg-saga"
    assert f"rg-saga {least(saga):.0f} (" in cell.split("; ")[0].split(", ")[-1] or f"(rg-saga {least(saga):.0f})" in cell
    saved = next(sentence for sentence in sentences if "one setting" in sentence and "C_A = 20" in sentence)
    lazy, best = least(pl.col("method") == "lazy-dane"), least(pl.col("method") != "lazy-dane")
    assert f"{lazy:.0f} of {best:.0f}" in saved and f"met on {int(lazy <= 0.8 * best)} of 1" in saved
    (chart,) = regimes.exhibits(study)
    wide = [cell for cell in chart.chart["data"]["values"] if cell["C_A"] == 20 and cell["budget"].startswith("any")]
    assert [cell["cost"] for cell in wide] == [f"{best:.0f}"] and wide[0]["RG-SAGA by the theorem"]
    ablation = next(sentence for sentence in sentences if sentence.startswith("E.1"))
    cheap = study.costs("to-1e-6", "C_A = 1")
    costs = [cheap.filter(saga, pl.col("algorithm.estimator.passes") == passes)["cost"].min() for passes in (0, 1)]
    assert f"initial passes 0, 1 cost {costs[0]:.0f}, {costs[1]:.0f} at C_A = 1" in ablation
