"""Reproductions that compare methods on networks: the files, tuning, goals, claims and the page."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from turnout.accounting.prices import Hierarchical
from turnout.core.errors import UserError
from turnout.experiment.config import Experiment
from turnout.reproduce.networks import words
from turnout.reproduce.networks.paper import (
    SCALES,
    Claim,
    Column,
    Contender,
    Figure,
    Goal,
    Panel,
    Paper,
    Setting,
    merged,
    read_paper,
    told,
)
from turnout.reproduce.networks.reproduction import plan_of, reproduce
from turnout.reproduce.networks.run import FRESH, Plan
from turnout.reproduce.networks.tables import Numbers, costs
from turnout.reproduce.papers import papers

NETWORKS = [name for name in papers() if name.endswith("-networks")]
PRICE = Hierarchical(c1=0.1, c2=1.0)


@pytest.fixture(scope="module")
def tiny() -> Paper:
    """A paper with one small problem: a method with a choice of two settings for each K, and one without a choice."""
    setting = Setting(
        "synthetic",
        "Synthetic",
        ("own", "plain"),
        {
            "problem": {"kind": "multinomial", "data": "synthetic", "test": "synthetic.t", "weights": "size"},
            "split": {"kind": "natural"},
            "sampler": {"kind": "nice", "size": 5},
            "run": {"rounds": 4, "metrics": ["value", "accuracy", "test_accuracy"]},
        },
    )
    solver = {"kind": "descent", "optimiser": {"kind": "adam", "lr": 0.1}}
    own = Contender(
        title="SPPM",
        algorithm={"kind": "sppm", "solver": solver, "gamma": 1.0},
        grid={"inner": [1, 3], "solver.optimiser.lr": [0.01, 0.2]},
        along="inner",
        role="paper",
    )
    plain = Contender(title="plain", algorithm={"kind": "fedavg", "lr": 0.05, "steps": 2}, problem={"weights": "uniform"})
    goal, pair = Goal("accuracy", 0.3, PRICE), ("own", "plain")
    panels = (
        Panel("curves", "synthetic", goal, pair),
        Panel("curves", "synthetic", replace(goal, metric="value", level=None), pair, against="queries"),
        Panel("levels", "synthetic", goal, pair, levels=(0.2, 0.3)),
        Panel("prices", "synthetic", goal, pair, c1=(0.0, 0.5)),
        Panel("along", "synthetic", goal, pair),
        Panel("sizes", "synthetic"),
    )
    columns = (Column("to 0.3", goal), Column("common", Goal("test_accuracy", "common")), Column("best", Goal("test_accuracy")))
    claims = tuple(Claim(problem="synthetic", column=column.title, own="own", rival="plain") for column in columns)
    return Paper(
        name="tiny",
        title="a paper",
        authors="somebody",
        scale="small",
        tuning=2,
        columns=columns,
        claims=claims,
        settings={"synthetic": setting},
        contenders={"own": own, "plain": plain},
        figures={"1": Figure("1", "all", "a caption", panels)},
        measure="plain",
        ceiling=0.25,
    )


@pytest.fixture(scope="module")
def played(tiny, tmp_path_factory):
    """The folder in which the tiny paper was played, and its plan."""
    folder = tmp_path_factory.mktemp("played")
    plan = Plan(tiny, list(tiny.figures.values()), True, ["synthetic"], 2)
    done = reproduce(plan, folder, lambda *_: None, "turnout reproduce tiny", False)
    assert done.page == folder / "report.html"
    return folder, plan


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_setting_is_a_configuration_and_all_that_is_named_is_there(name, scale):
    paper = read_paper(name, scale)
    for setting in paper.settings.values():
        for who in setting.contenders:
            for values in paper.contenders[who].settings():
                assert isinstance(setting.experiment(who, paper.contenders[who], values), Experiment)
    shown = [panel for figure in paper.figures.values() for panel in figure.panels]
    asked = [(panel.problem, who) for panel in shown for who in panel.contenders]
    asked += [(claim.problem, who) for claim in paper.claims for who in (claim.own, claim.rival)]
    assert all(who in paper.settings[problem].contenders for problem, who in asked)
    assert {panel.problem for panel in shown} <= set(paper.settings)
    assert {claim.column for claim in paper.claims} <= {column.title for column in paper.columns}


def test_the_paper_scale_differs_from_the_small_one():
    for name in NETWORKS:
        small, large = (read_paper(name, scale) for scale in SCALES)
        assert [setting.tables for setting in small.settings.values()] != [setting.tables for setting in large.settings.values()]


def test_tables_merge_by_kind():
    old = {"a": {"kind": "x", "one": 1, "deep": {"k": 1}}, "grid": {"lr": [1]}}
    assert merged(old, {"a": {"one": 2}})["a"] == {"kind": "x", "one": 2, "deep": {"k": 1}}
    assert merged(old, {"a": {"kind": "x", "deep": {"j": 2}}})["a"]["deep"] == {"k": 1, "j": 2}
    assert merged(old, {"a": {"kind": "y"}})["a"] == {"kind": "y"}
    assert merged({"a": {"size": 3}}, {"a": {"kind": "y"}})["a"] == {"size": 3, "kind": "y"}
    assert merged(old, {"grid": {"k": [2]}})["grid"] == {"k": [2]}


def test_costs_are_those_of_the_first_row_that_meets_the_goal():
    runs = pl.DataFrame(
        {"seed": [0, 0, 0, 1, 1, 1], "accuracy": [0.1, 0.7, 0.6, 0.1, 0.2, 0.3], "value": [3.0, 2, 1, 3, 2, 2],
         "exchanges": [0, 4, 8, 0, 4, 8], "cohorts": [0, 2, 4, 0, 2, 4]}
    )  # fmt: skip
    found, spent = costs(runs, Goal("accuracy", 0.5, PRICE))
    np.testing.assert_allclose(found, [0.1 * 4 + 2, math.inf])
    np.testing.assert_allclose(spent, [4.8, 4.8])
    np.testing.assert_allclose(costs(runs, Goal("value", 1.5))[0], [8, math.inf])
    np.testing.assert_allclose(costs(runs, Goal("accuracy"))[0], [0.7, 0.3])
    np.testing.assert_allclose(costs(runs, Goal("value"))[0], [1, 2])


@pytest.mark.slow
def test_what_reports_was_chosen_by_the_least_mean_cost_in_runs_with_other_seeds(tiny, played):
    folder, plan = played
    tuning, rows = (pl.read_parquet((folder / f"{name}.parquet").read_bytes()) for name in ("tuning", "results"))
    assert set(tuning["seed"]) == {0, 1} and set(rows["seed"]) == {FRESH, FRESH + 1}
    assert set(tuning["contender"]) == {"own", "plain"}
    numbers, goal = Numbers(tiny, tuning, rows), tiny.columns[0].goal
    for along, setting in numbers.settings("synthetic", "own", goal, each=True):
        rivals = tuning.filter(pl.col("along") == along)
        means = {name: costs(part, goal)[0].mean() for (name,), part in rivals.group_by("setting")}
        assert means[setting] == min(means.values())
        assert numbers.entry("synthetic", "own", goal, setting).costs.size == 2
    ((_, best),) = numbers.settings("synthetic", "own", goal)
    assert best in {setting for _, setting in numbers.settings("synthetic", "own", goal, each=True)}


def test_a_common_level_is_what_the_measure_reaches_on_average_up_to_the_ceiling(tiny, played):
    rows = pl.read_parquet((played[0] / "results.parquet").read_bytes())
    mine = rows.filter(pl.col("contender") == "plain").group_by("round").agg(pl.col("test_accuracy").mean())
    goal = Goal("test_accuracy", "common")
    for ceiling in (0.01, 0.999):
        numbers = Numbers(replace(tiny, ceiling=ceiling), rows, rows)
        assert numbers.common("synthetic", goal) == pytest.approx(min(ceiling, mine["test_accuracy"].max()))


@pytest.mark.slow
def test_a_second_start_plays_nothing_again_and_finds_the_same(played, monkeypatch):
    folder, plan = played
    before = json.loads((folder / "summary.json").read_text())
    monkeypatch.setattr("turnout.reproduce.networks.run.play", lambda *_: pytest.fail("played again"))
    reproduce(plan, folder, lambda *_: None, "turnout reproduce tiny", False)
    assert json.loads((folder / "summary.json").read_text())["tables"] == before["tables"]


def test_claims_are_judged_by_the_mean_costs(tiny, played):
    rows = pl.read_parquet((played[0] / "results.parquet").read_bytes())
    tuning = pl.read_parquet((played[0] / "tuning.parquet").read_bytes())
    numbers, claim = Numbers(tiny, tuning, rows), tiny.claims[0]
    own, rival = (numbers.entry("synthetic", name, tiny.columns[0].goal) for name in ("own", "plain"))
    for factor in (1e-6, 1e6):
        sentence = words.judged(tiny, numbers, replace(claim, factor=factor))
        assert sentence.endswith("is met." if own.mean <= factor * rival.least else "is not met.")
    assert len(words.verdict(tiny, numbers, ["synthetic"])) == 3 and words.verdict(tiny, numbers, []) == []


def test_the_page_and_the_pictures_are_written(played):
    folder, _ = played
    page = (folder / "report.html").read_text()
    assert "seeds 1000 to 1001" in page and (folder / "figures" / "figure-1.png").stat().st_size > 10_000
    table = json.loads((folder / "summary.json").read_text())["tables"][0]
    assert set(table["rows"]) == {"own", "plain"} and table["rows"]["own"]["best"]["runs"] == 2


def test_mistakes_are_sentences(tiny):
    with pytest.raises(UserError, match="has no figure '99'"):
        plan_of(tiny, ["99"], None, 1, None)
    with pytest.raises(UserError, match="has no set 'other'"):
        plan_of(tiny, [], ["other"], 1, None)


def test_settings_are_told_apart():
    assert told({"solver.optimiser.lr": 0.01, "inner": 3}) == "lr = 0.01, inner = 3"
    assert told({"a.lr": 0.5, "b.lr": 2}) == "a.lr = 0.5, b.lr = 2"
