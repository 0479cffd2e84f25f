"""What the command `theory` says of cost-aware client selection, against a program of its own."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

import turnout as t
from tests.helpers.commands import config, turnout
from turnout.accounting.prices import Selection
from turnout.experiment.build import build
from turnout.experiment.config import read
from turnout.experiment.theory import costs_of
from turnout.theory.dissimilarity import Dissimilarity
from turnout.theory.selection import Case, rg_saga, rg_svrg
from turnout.theory.selection_complexity import TABLE
from turnout.theory.selection_costs import NAMES

MU, DELEGATE = 0.1, 2
WISH = {
    "target": {"metric": "gradient", "below": 1e-4},
    "price": [{"kind": "selection"}, {"kind": "exchanges"}, {"kind": "selection", "arbitrary": 10, "random": 2}],
    "algorithm": {
        "kind": "icgm",
        "lam": 0.01,
        "probability": 0.1,
        "estimator": {"kind": "rg-saga"},
        "delegate": {"kind": "delegate", "client": DELEGATE},
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the command printed on both outputs and wrote, and the clients' features times labels."""
    place = tmp_path_factory.mktemp("theory")
    file = config(place, **WISH)
    code, said, wrong = turnout("theory", file, "--out", place / "out")
    assert code == 0, wrong
    problem = build(read(file), None).problem
    rows = np.asarray(problem.rows[0]) * np.asarray(problem.rows[1])[:, None]
    return said, wrong, json.loads((place / "out" / "theory.json").read_text())["selection"], rows, problem.offsets


@pytest.mark.longer
def test_constants_are_those_of_the_problem_where_it_starts(made):
    """Logistic regression at 0: slopes -sum_r b_r a_r / (2 n_i), Hessians sum_r a_r a_r^T / (4 n_i) + mu."""
    _, _, facts, rows, offsets = made
    clients = [rows[a:b] for a, b in pairwise(offsets)]
    slopes = np.array([-mine.mean(0) / 2 for mine in clients])
    hessians = np.array([mine.T @ mine / 4 / len(mine) for mine in clients]) + MU * np.eye(rows.shape[1])
    apart, found = hessians - hessians.mean(0), facts["constants"]
    norm = lambda matrix: np.linalg.norm(matrix, 2, axis=(-2, -1))  # noqa: E731
    expected = {
        "delta": norm(np.mean(apart @ apart, axis=0)) ** 0.5,
        "Delta_1": norm(apart)[DELEGATE],
        "Delta_max": norm(apart).max(),
        "L_1": norm(hessians)[DELEGATE],
        "L_max": norm(hessians).max(),
        "L_f": norm(hessians.mean(0)),
        "zeta": np.sum(slopes.var(0)) ** 0.5,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-6), name
    assert found["delta_m"] == pytest.approx(found["delta"] * (8 / 11 / 4) ** 0.5)
    share = np.repeat(1 / np.diff(offsets) / len(clients), np.diff(offsets))
    least = minimize(lambda x: share @ np.logaddexp(0, -rows @ x) + MU / 2 * x @ x, np.zeros(rows.shape[1])).fun
    assert facts["target"] == {"n": 12, "m": 4, "F^0": pytest.approx(np.log(2) - least, rel=1e-5), "epsilon": 1e-2}


def test_table_1_and_the_parameters_are_shown_and_written_at_each_selection_price(made):
    said, _, facts, *_ = made
    constants, target = facts["constants"], facts["target"]
    case = Case(Dissimilarity(*(constants[name] for name in NAMES)), target["n"], target["m"], target["F^0"], target["epsilon"])
    case = replace(case, heterogeneity=constants["zeta"])
    assert len(facts["prices"]) == 2
    for price, found in zip((Selection(), Selection(10.0, 2.0)), facts["prices"], strict=True):
        here = replace(case, price=price)
        assert price.label == found["price"] and price.label in said
        for row in TABLE:
            amounts = found["table"][row.method]
            assert (amounts["price"], amounts["queries"]) == row.amounts(here)
            assert row.method in said and f"{amounts['price']:,.4g}" in said
        for name, guarantee in (("rg-saga", rg_saga(here)), ("rg-svrg", rg_svrg(here))):
            assert found["guarantees"][name]["cost"] == guarantee.cost and f"{guarantee.parameters.lam:,.4g}" in said


def test_a_lambda_outside_the_theory_is_a_warning(made):
    _, wrong, facts, *_ = made
    delta_one = facts["constants"]["Delta_1"]
    sentence = f"the theorems of I-CGM need lam > Delta_1, but lam is 0.01 and Delta_1 {delta_one:.4g}: raise lam"
    assert wrong == f"turnout: warning: {sentence}\n" and facts["warning"] == sentence


@pytest.mark.slow
def test_a_configuration_without_costs_says_why(tmp_path):
    weighted = {"kind": "logistic", "data": "breast_cancer", "weights": "size"}
    for table, content, why in (
        ("target", {"metric": "gap", "below": 0.1}, "set a .target. on"),
        ("problem", weighted, "equal weight"),
        ("sampler", {"kind": "delegate", "client": 12}, "client 12, but they are 0 to 11"),
    ):
        experiment = read(config(tmp_path, **{**WISH, table: content}))
        with pytest.raises(t.UserError, match=why):
            costs_of(experiment, build(experiment, None).problem)
