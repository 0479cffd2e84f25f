"""Figures of studies: mistakes have their line, and lines hold what an independent computation gives."""

import numpy as np
import polars as pl
import pytest

import turnout as t
from tests.helpers.studies import STUDY, declared, tables
from turnout.engines.metrics import NAMES
from turnout.report.lines import banded
from turnout.studies.curves import drawings
from turnout.studies.figures import default_figures
from turnout.studies.study import Study

FIGURES = """
[[figures]]
name = "1"

[[figures.panels]]
problems = ["made"]

[[figures]]
name = "2"
title = "Costs"

[[figures.panels]]
methods = ["mbgd"]

[[figures.panels]]
y = "cost"
x = "sampler.size"
where = { "algorithm.lr" = 0.3 }
"""

MISTAKES = [
    (
        ('problems = ["made"]', 'problems = ["maid"]'),
        "maid",
        "figures.panels.problems: unknown problem 'maid': did you mean 'made'",
    ),
    (('methods = ["mbgd"]', 'methods = ["gd"]'), '["gd"]', "figures.panels.methods: unknown method 'gd'"),
    (
        ('methods = ["mbgd"]', 'metods = ["mbgd"]'),
        "metods",
        "figures.panels.metods: unknown key 'metods': did you mean 'methods'",
    ),
    (('methods = ["mbgd"]', 'y = "gradiant"'), "gradiant", "figures.panels.y: unknown metric 'gradiant'"),
    (('methods = ["mbgd"]', 'x = "exchange"'), "exchange", "figures.panels.x: unknown horizontal axis 'exchange'"),
    (('methods = ["mbgd"]', 'goal = "far"'), "far", "figures.panels.goal: unknown goal 'far'"),
    (('methods = ["mbgd"]', 'price = "cheap"'), "cheap", "figures.panels.price: unknown price 'cheap'"),
    (('methods = ["mbgd"]', 'by = "lr"'), "by =", "figures.panels.by: unknown swept key 'lr'"),
    (('methods = ["mbgd"]', 'scale = "square"'), "square", "figures.panels.scale: must be 'log' or 'linear'"),
    (('x = "sampler.size"', 'x = "exchanges"'), 'x = "exchanges"', "figures.panels.x: unknown horizontal axis 'exchanges'"),
    (
        (
            '[[figures.panels]]\ny = "cost"\nx = "sampler.size"',
            '[[ figures.panels ]]\ny = "cost"\nx = "price.c1"\nprice = "exchanges"',
        ),
        "[[ figures.panels ]]",
        "figures.panels: price 'exchanges' has no c1: name one of dear",
    ),
    (('x = "sampler.size"', "share = true"), "share", "figures.panels.share: share is for metrics along runs"),
    (
        ('[[figures.panels]]\ny = "cost"\nx = "sampler.size"', '[[ figures.panels ]]\ny = "cost"'),
        "[[ figures.panels ]]",
        "figures.panels: x is missing: give the swept key",
    ),
    (('"algorithm.lr" = 0.3', '"algorithm.lrr" = 0.3'), "lrr", "figures.panels.where: unknown swept key 'algorithm.lrr'"),
    (
        ('problems = ["made"]', 'problems = ["flat"]\nmethods = ["mbgd"]'),
        "[[figures.panels]]",
        "figures.panels: none of its methods",
    ),
    (('title = "Costs"', 'titel = "Costs"'), "titel", "figures.titel: unknown key 'titel': did you mean 'title'"),
    (('name = "2"', "name = '1'"), "'1'", "figures.name: two figures are named '1'"),
    (('name = "2"', 'name = "a/b"'), "a/b", "figures.name: a name is part of a file's name, so it cannot be 'a/b'"),
    (('[[figures]]\nname = "2"', "[[ figures ]]"), "[[ figures ]]", "figures: name is missing"),
]


@pytest.mark.parametrize(("edit", "line", "words"), MISTAKES, ids=[words for *_, words in MISTAKES])
def test_a_mistake_in_a_figure_is_one_sentence_with_its_line(tmp_path, edit, line, words):
    assert edit[0] in FIGURES
    text = FIGURES.replace(*edit)
    number = next(k for k, content in enumerate(text.splitlines(), start=STUDY.count("\n") + 1) if line in content)
    path = tmp_path / "study.toml"
    path.write_text(STUDY + text)
    with pytest.raises(t.UserError) as error:
        declared(path)
    assert str(error.value).startswith(f"{path}, line {number}: {words}") and "\n" not in str(error.value)


def test_panels_have_the_defaults_of_the_page_on_studies():
    made, both, costs = (panel for figure in declared(tables(STUDY + FIGURES)).figures for panel in figure.panels)
    assert (made.y, made.x, made.goal, made.price, made.scale) == ("gradient", "exchanges", "near", "exchanges", "log")
    assert made.methods == ["fedavg", "mbgd"] and both.problems == ["made"] and costs.where == {"algorithm.lr": 0.3}
    (figure,) = default_figures(declared(tables()), [], "dear")
    assert (figure.name, figure.panels[0].x, figure.panels[0].problems) == ("gradient", "dear", ["made", "flat"])
    study = tables(STUDY + FIGURES)
    del study["goals"], study["claims"]
    with pytest.raises(t.UserError, match="figures.panels: there is no goal: add"):
        declared(study)


PANELS = [
    {"settings": "all"},
    {"y": "gap", "x": "dear", "share": True},
    {"y": "cost", "x": "algorithm.lr", "by": "algorithm.steps", "price": "dear"},
    {"y": "cost", "x": "price.c2"},
    {"x": "queries", "where": {"algorithm.lr": 0.02}},
]


@pytest.fixture(scope="module")
def played() -> Study:
    """A study of a method with a grid and one without."""
    fedavg = {
        "algorithm": t.FedAvg(t.Nice(4), lr=0.02, steps=2),
        "grid": {"algorithm.lr": [0.02, 0.05], "algorithm.steps": [1, 3]},
    }
    hubs = {"kind": "hierarchical", "c1": 0.5}
    return t.study(
        {
            "seeds": 6,
            "run": {"rounds": 25},
            "problems": {"made": t.Quadratic.random(12, 5, seed=1)},
            "methods": {"fedavg": fedavg, "gd": t.Gd(t.Full(), lr=0.1)},
            "goals": {"near": {"metric": "gradient", "share": 0.3}},
            "prices": {"exchanges": {"kind": "exchanges"}, "dear": {**hubs, "c2": 2.0}, "dearer": {**hubs, "c2": 9.0}},
            "figures": [{"name": str(k), "panels": [panel]} for k, panel in enumerate(PANELS)],
        }
    )


def drawn(study: Study, k: int) -> dict:
    """The lines of the k-th figure by their labels."""
    (drawing,) = drawings(study, study.declaration.figures[k])
    return {line.label: line for line in drawing.lines}


def upper(values: list[float]) -> float:
    """The median, of an even number of values the larger of the two in the middle."""
    return sorted(values)[len(values) // 2]


@pytest.mark.slow
def test_a_curve_holds_the_quartiles_of_the_last_values_that_runs_had_seen(played):
    lines = drawn(played, 0)
    assert len(lines) == 5
    for label, line in lines.items():
        setting = label.removeprefix("fedavg, ") if label != "gd" else ""
        runs = played.runs.filter(pl.col("method") == label.partition(",")[0], pl.col("setting") == setting)
        for k, x in enumerate(line.x):
            last = [run.filter(pl.col("exchanges") <= x)["gradient"][-1] for run in runs.partition_by("seed")]
            assert line.median[k] == pytest.approx(upper(last), rel=1e-4)
            assert line.low[k] == pytest.approx(sorted(last)[1], rel=1e-4)
            assert line.high[k] == pytest.approx(sorted(last)[4], rel=1e-4)


@pytest.mark.slow
def test_a_share_is_that_of_the_first_value_and_x_is_the_price(played):
    line = drawn(played, 1)["gd"]
    run = played.runs.filter(pl.col("method") == "gd", pl.col("seed") == 0)
    np.testing.assert_allclose(line.x, 0.5 * run["exchanges"] + 2.0 * run["cohorts"])
    np.testing.assert_allclose(line.median, run["gap"] / run["gap"][0], rtol=1e-4)


@pytest.mark.longer
def test_costs_against_a_key_are_those_of_its_settings(played):
    lines = drawn(played, 2)
    costs = played.costs("near", "dear")
    for steps in (1, 3):
        mine = costs.filter(pl.col("algorithm.steps") == steps).sort("algorithm.lr")
        line = lines[f"fedavg, steps = {steps}"]
        assert line.x == [0.02, 0.05] and line.median == mine["cost"].to_list() and not line.level
        assert line.low == mine["low"].to_list()
    level = lines["gd"]
    assert level.level and level.x == [0.02, 0.05] and len({*level.median}) == 1
    assert level.median[0] == costs.filter(pl.col("method") == "gd")["cost"].item()


@pytest.mark.longer
def test_costs_against_a_field_of_prices_are_those_of_each_price(played):
    lines = drawn(played, 3)
    for method, line in lines.items():
        best = [played.best("near", price).filter(pl.col("method") == method)["cost"].item() for price in ("dear", "dearer")]
        assert line.x == [2.0, 9.0] and line.median == best


@pytest.mark.longer
def test_a_part_of_a_study_has_the_figures_of_what_is_played(played):
    gd = Study(played.declaration.part(None, ["gd"], None), played.runs.filter(pl.col("method") == "gd"))
    assert drawn(gd, 0).keys() == {"gd"}
    flat = t.study(tables(STUDY + FIGURES), problems=["flat"], seeds=1)
    assert [drawings(flat, figure) for figure in flat.declaration.figures] == [[], []]


def test_where_leaves_settings_out_and_methods_without_the_key_in(played):
    lines = drawn(played, 4)
    costs = played.costs().filter(pl.col("algorithm.lr") == 0.02).sort("cost", "mean", "queries")
    runs = played.runs.filter(pl.col("setting") == costs["setting"][0])
    assert lines.keys() == {"fedavg", "gd"} and lines["fedavg"].x[-1] == runs["queries_slowest"].max()


def test_runs_are_compared_as_far_as_all_of_them_go_and_nan_is_worst():
    short = (np.array([0.0, 2.0, 4.0]), np.array([8.0, 4.0, 2.0]))
    long = (np.array([1.0, 3.0, 9.0]), np.array([9.0, np.nan, 1.0]))
    columns = banded([short, long])
    assert columns["x"].tolist() == [1, 2, 3, 4]
    assert columns["low"].tolist() == [8, 4, 4, 2] and columns["median"].tolist() == [9, 9, np.inf, np.inf]
    many = banded([(np.arange(1000.0), np.arange(1000.0))])
    assert len(many["x"]) == 120 and (many["median"] == np.floor(many["x"])).all()


def test_without_goals_each_metric_has_a_figure(played):
    metrics = [name for name in NAMES if name in played.runs.columns]
    study = {"problems": {"made": {}}, "methods": {"gd": {}}}
    figures = default_figures(declared(study), metrics, "exchanges")
    assert [figure.name for figure in figures] == metrics == ["gap", "gradient"]
