"""What the theory guarantees for a run, in its summary and by command."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import turnout as t
from tests.helpers.commands import config, turnout
from tests.theory.test_theory import minimum, quadratic
from turnout.experiment.build import build
from turnout.experiment.config import read
from turnout.experiment.run import start
from turnout.experiment.theory import guarantees, milestones
from turnout.report.downsample import points
from turnout.report.loaded_run import Result
from turnout.runs.setup import bind
from turnout.theory.applicability import bound_of
from turnout.theory.bounds import (
    theorem_1,
    theorem_2,
)
from turnout.theory.constants import constants_of

SPPM = {"algorithm": {"kind": "sppm", "gamma": 0.5, "solver": "bfgs"}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a small SPPM run."""
    place = tmp_path_factory.mktemp("theory")
    start(read(config(place, **SPPM)), place / "out", None, lambda session: None, "turnout run")
    return place / "out"


@pytest.mark.longer
def test_a_runs_summary_holds_its_bound_and_its_floors(finished):
    result = Result.read(finished)
    theory = result.summary["theory"]
    mu, sigma2, distance2 = theory["mu_as"], theory["sigma2_as"], theory["distance2"]
    assert distance2 == pytest.approx(result.trace["distance"][0])
    np.testing.assert_allclose(result.bound, theorem_1(np.arange(7), 0.5, mu, sigma2, distance2))
    assert list(theory["floors"]) == ["1", "2", "3", "5", "10"] and result.floor == theory["floors"]["1"]
    drawn, other = (points(result, metric, result.prices, log=True) for metric in ("distance", "value"))
    np.testing.assert_allclose([row["bound"] for row in drawn.rows], result.bound, rtol=1e-6)
    assert drawn.floors[0]["floor"] == pytest.approx(result.floor) and len(drawn.notes) == 1
    assert not other.floors and not other.notes and "bound" not in other.rows[0]


@pytest.mark.tiers(quick=["theory2", "theory3"], slow=["theory1"])
@pytest.mark.parametrize("theory", [{"bound": {"rate": 1}}, {"floors": {"1": "x"}}, {"bound": 3}, [1]])
def test_a_broken_theory_is_one_sentence(finished, theory, tmp_path):
    for name in ("summary.json", "trace.parquet"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    summary = json.loads((tmp_path / "summary.json").read_text())
    (tmp_path / "summary.json").write_text(json.dumps({**summary, "theory": theory}))
    with pytest.raises(t.UserError, match="theory"):
        Result.read(tmp_path)


@pytest.mark.parametrize(
    ("algorithm", "faults", "words"),
    [
        (t.FedAvg(t.Nice(2), lr=0.1), None, "FedAvg"),
        (t.Sppm(t.Nice(2), t.solvers.Bfgs(), 1.0, schedule=t.schedules.Inverse(2.0)), None, "leave schedule out"),
        (t.Sppm(t.Nice(2), t.solvers.Bfgs(), 1.0, averaging=0.5), None, "leave averaging out"),
        (t.Sppm(t.Nice(2), t.solvers.Bfgs(), 1.0), t.Faults(0.1, "skip"), "skipped"),
        (t.Sppm(t.Independent(probability=0.3), t.solvers.Bfgs(), 1.0), None, "empty"),
        (t.FedProxSppm(t.Nice(2), 1.0, inner=2), None, "inner = 1"),
        (t.Sppm(t.ShuffledNice(2), t.solvers.Bfgs(), 1.0), None, "shuffles"),
    ],
)
def test_where_no_theorem_holds_the_reason_is_said(algorithm, faults, words):
    problem = quadratic()
    algorithm = bind(algorithm, problem)
    with pytest.raises(t.UserError, match=words):
        bound_of(algorithm, problem, constants_of(problem, algorithm.sampler, minimum()), faults)


def test_each_algorithm_has_its_theorem():
    problem, rounds = quadratic(), np.arange(9)
    sppm, averaged = (bind(a, problem) for a in (t.Sppm(t.Nice(2), t.solvers.Bfgs(), 0.7), t.FedProxSppm(t.Nice(2), 0.7)))
    known = constants_of(problem, sppm.sampler, minimum())
    one, two = bound_of(sppm, problem, known, t.Faults(0.1, "repeat")), bound_of(averaged, problem, known)
    assert (one.theorem, two.theorem) == (1, 2)
    np.testing.assert_allclose(one.at(rounds), theorem_1(rounds, 0.7, known.mu, known.sigma2, known.distance2))
    expected = theorem_2(rounds, 0.7, known.convexity, np.full(8, 1 / 8), known.gradient_norms2, known.distance2)
    np.testing.assert_allclose(two.at(rounds), expected)


def test_without_a_theorem_there_are_constants_and_floors(tmp_path):
    experiment = read(config(tmp_path))
    found = guarantees(experiment, build(experiment, None).problem)
    assert "FedAvg" in found.theory.bound and not found.curves(np.arange(3)) and found.recommended is None
    assert found.facts()["floors"]["2"] == pytest.approx(found.facts()["floors"]["1"] / 2)


@given(st.integers(0, 10**7))
def test_milestones_rise_from_the_start_to_the_end(last):
    steps = milestones(last).tolist()
    assert steps[0] == 0 and steps[-1] == last and steps == sorted(set(steps)) and len(steps) < 30


@pytest.mark.longer
def test_the_command_shows_and_writes_what_theory_guarantees(tmp_path):
    code, said, wrong = turnout("theory", config(tmp_path, **SPPM), "--out", tmp_path / "out")
    assert (code, wrong) == (0, ""), wrong
    assert "gamma of Theorem 1" in said and "Lemma 13" in said and "10 cohorts" in said
    facts = json.loads((tmp_path / "out" / "theory.json").read_text())
    bound = facts["bound"]
    assert f"{bound['neighbourhood']:.4g}" in said and f"{facts['recommended']['gamma']:.4g}" in said
    np.testing.assert_allclose(
        facts["curves"]["gamma = 0.5"],
        bound["rate"] ** np.array(facts["curves"]["rounds"]) * facts["distance2"] + bound["neighbourhood"],
    )
    assert turnout("figures", tmp_path / "out")[0] == 0
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} == {"bound.svg", "bound.png", "bound.pdf"}


def test_the_command_refuses_what_no_theory_is_about(tmp_path):
    network = config(
        tmp_path, problem={"kind": "network", "data": "iris", "normalize": "columns"}, target={"metric": "value", "below": 0.1}
    )
    code, _, wrong = turnout("theory", network)
    assert code == 2 and wrong.count("\n") == 1 and "strongly convex" in wrong, wrong


FEDDCD = {"algorithm": {"kind": "feddcd", "solver": "newton-cg"}, "target": {"metric": "gap", "below": 1e-3}}
SELECTION = {"target": {"metric": "gradient", "below": 1e-12}, "price": [{"kind": "selection"}]}


@pytest.mark.tiers(longer=["selection"])
@pytest.mark.parametrize("tables", [SPPM, SELECTION], ids=["sppm", "selection"])
def test_no_number_is_cut_in_a_narrow_terminal(tmp_path, monkeypatch, tables):
    """All words of the tables that a wide terminal shows come whole."""
    file, words = config(tmp_path, **tables), []
    for columns in (400, 40):
        monkeypatch.setattr("turnout.cli.tables.console", Console(width=columns))
        code, said, wrong = turnout("theory", file)
        assert (code, wrong) == (0, ""), wrong
        assert "\u2026" not in said
        cells = [cell for line in said.splitlines() if line.startswith("\u2502") for cell in line.split("\u2502")]
        words.append(Counter(word for cell in cells for word in cell.split()))
    assert sum(words[0].values()) > 20 and words[0] == words[1]


def test_the_command_compares_methods_by_table_1_of_feddcd(tmp_path):
    """Without noise, zeta being the largest |grad f_i(x*)|."""
    code, said, wrong = turnout("theory", config(tmp_path, **FEDDCD), "--out", tmp_path / "out")
    assert (code, wrong) == (0, ""), wrong
    facts = json.loads((tmp_path / "out" / "theory.json").read_text())
    (_, zeta2), (alpha, _), (_, beta) = facts["gradient_norms2"], facts["mu"], facts["L"]
    log, zeta = np.log(1e3), zeta2**0.5
    expected = {
        "MB-SGD": (1 - 4 / 12) * zeta2 / (4 * alpha * 1e-3) + beta / alpha * log,
        "FedAvg": (beta / 1e-3) ** 0.5 * zeta / alpha + beta / alpha * log,
        "SCAFFOLD": (beta / alpha + 12 / 4) * log,
        "FedDCD": 11 / 3 * beta / alpha * np.log(zeta / 1e-3),
        "AccFedDCD": 11 / 3 * (beta / alpha) ** 0.5 * np.log(zeta / 1e-3),
    }
    assert facts["orders"] == pytest.approx(expected, rel=1e-9)
    for order in expected.values():
        assert f"{order:.4g}" in said
    assert facts["designs"]["nice"]["sigma2_as"] == pytest.approx(facts["sigma2_as"])
    assert f"{facts['designs']['stratified']['lemma_1']:.4g}" in said
