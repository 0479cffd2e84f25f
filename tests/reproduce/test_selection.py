"""Reproductions that compare methods by the price of selections: the files, the runs, the arithmetic and the verdict."""

import json
import math
from dataclasses import replace
from itertools import chain

import numpy as np
import polars as pl
import pytest

from turnout.accounting.prices import Selection
from turnout.core.errors import UserError
from turnout.experiment.build import build, session_of
from turnout.reproduce.selection import words
from turnout.reproduce.selection.paper import Claims, Figure, Local, Panel, Setup, read_paper
from turnout.reproduce.selection.play import EVENTS, told
from turnout.reproduce.selection.reproduction import plan_of, reproduce
from turnout.reproduce.selection.run import Plan, Player
from turnout.reproduce.selection.tables import Best, Numbers, cheapest, exponent


@pytest.fixture(scope="module")
def paper():
    return read_paper("cost-aware")


@pytest.fixture(scope="module")
def tiny(paper):
    """The paper on small quadratics with three contenders, a figure of each kind, and a target that is met soon."""
    setting = paper.settings["quadratic"]
    tables = {
        "problem": {"kind": "log-sum", "clients": 6, "dimension": 5, "similarity": 5.0},
        "sampler": {"kind": "nice", "size": 2},
    }
    small = replace(setting, title="small ones", tables=tables, contenders=["gd", "rg-saga", "fedavg"])
    contenders = {
        "gd": replace(paper.contenders["gd"], rounds=300, grid={"lr": [0.5, 1.0]}),
        "fedavg": replace(paper.contenders["fedavg"], rounds=20, grid={"steps": [2, 5]}, scale=None),
        "rg-saga": replace(paper.contenders["rg-saga"], rounds=60, grid={"lam": [0.05, 0.2]}),
    }
    panels = (
        Panel(problems=["quadratic"], contenders=["gd", "rg-saga"], arbitrary=5.0),
        Panel(problems=["quadratic"], contenders=["rg-saga"], against="queries", every=True),
    )
    figures = {"1": Figure("1", "both", "a caption", panels, (Local(problem="quadratic", contender="rg-saga"),))}
    claims = Claims(
        compared=["quadratic"],
        best="rg-saga",
        passes=["passes-1", "passes-2"],
        renewing="gd",
        growth=[["n-10"]],
        exponent=0.5,
        within=0.1,
        factor=1.5,
    )
    return replace(
        paper,
        below=[1e-3, 1e-4],
        ratios=[1.0, 5.0],
        settings={"quadratic": small},
        contenders=contenders,
        figures=figures,
        claims=claims,
    )


@pytest.fixture(scope="module")
def played(tiny, tmp_path_factory):
    """The folder in which the tiny paper was played with two seeds, its plan, and the player's results."""
    folder, plan = tmp_path_factory.mktemp("played"), Plan(tiny, list(tiny.figures.values()), True, ["quadratic"], 2)
    player = Player(plan, folder, lambda *_: None)
    player.play(plan.tasks())
    return folder, plan, player


def test_every_contender_is_a_configuration_and_figures_and_claims_are_of_those_who_play(paper):
    for setting in paper.settings.values():
        for name in setting.contenders:
            contender = paper.contender(setting.name, name)
            experiment = setting.experiment(name, contender)
            assert experiment.run.rounds == contender.rounds
            assert {key.partition(".")[2] for key in experiment.sweep} == set(contender.grid)
            assert contender.rounds == setting.own.get(name, {}).get("rounds", paper.contenders[name].rounds)
    for figure in paper.figures.values():
        shown = [pair for chart in figure.shown(list(paper.settings)) for pair in chart.pairs]
        assert 0 < len(figure.panels) + len(figure.local) <= len(shown) and all(
            name in paper.settings[problem].contenders for problem, name in shown
        )
        assert {panel.arbitrary for panel in figure.panels} <= set(paper.ratios)
    assert {*paper.claims.compared, *chain.from_iterable(paper.claims.growth)} <= set(paper.settings)
    assert list(paper.figures) == ["2", "3", "E.1", "E.2", "E.3", "E.4", "E.5", "E.6", "E.7"]


def test_hits_are_what_the_same_run_alone_has_spent_when_it_arrives(tiny, played):
    _, plan, player = played
    task = plan.task("quadratic", "rg-saga")
    smoothness = player.built["quadratic"].problem.constants().smoothness.max()
    for cell in task.cells():
        algorithm = replace(task.experiment.algorithm, lam=cell.settings["lam"] * smoothness)
        alone = replace(task.experiment, algorithm=algorithm, run=replace(task.experiment.run, seed=cell.seed), sweep={})
        frame = session_of(alone, build(alone, None)).run().trace.frame
        first = frame.filter(pl.col("gradient") <= 1e-3 * frame["gradient"][0])[0]
        mine = player.results.hits.filter(
            pl.col("contender") == "rg-saga",
            pl.col("setting") == told(cell),
            pl.col("seed") == cell.seed,
            pl.col("below") == 1e-3,
        )
        assert mine.select(EVENTS).rows() == first.select(EVENTS).rows()
        cost = Selection(arbitrary=5.0).cost(mine.row(0, named=True))
        assert cost == 5 * (mine["draws_arbitrary"][0] + mine["reasks"][0]) + mine["draws_random"][0] + mine["draws_delegate"][0]


def test_everything_is_written_and_kept(tiny, played):
    folder, plan, _ = played
    done = reproduce(plan, folder, lambda *_: None, "turnout reproduce cost-aware", False)
    page, summary = done.page.read_text(), json.loads((folder / "summary.json").read_text())
    assert "3 of 3 sweeps were kept" in done.sentences[0]
    assert summary["command"] in page and summary["runs"] == 24 and len(summary["tables"]) == 9
    assert summary["problems"]["quadratic"]["delta"] == pytest.approx(5) and "I-CGM, RG-SAGA" in page
    steps = pl.read_parquet(folder / "runs" / "quadratic-rg-saga-steps.steps.parquet")
    assert steps["delta"].max() <= 5 * (1 + 1e-9) and steps["smooth_one"].max() <= 100 + 1e-9
    assert {path.name for path in (folder / "figures").iterdir()} == {"figure-1.svg", "figure-1.png"}
    with pytest.raises(UserError, match="leave --one-by-one out"):
        reproduce(plan, folder, lambda *_: None, "", True)


def made(**costs) -> pl.DataFrame:
    """Hand-made hits on one problem: for each contender a list of each seed's random selections, None if it did not arrive."""
    return pl.DataFrame(
        [
            {
                "problem": "quadratic",
                "contender": name.replace("_", "-"),
                "setting": setting,
                "seed": seed,
                "below": 1e-6,
                "share": 0.0,
            }
            | {event: cost if cost is None or event == "draws_random" else 0 for event in EVENTS}
            for name, settings in costs.items()
            for setting, seeds in settings.items()
            for seed, cost in enumerate(seeds)
        ],
        infer_schema_length=None,
    )


def test_the_best_setting_has_the_least_median_and_runs_that_do_not_arrive_are_infinitely_dear():
    hits = made(a={"x": [10, 30, 20], "y": [5, None, None]}, b={"z": [None, None, 3]})
    best = cheapest(hits, Setup(1e-6))
    assert best["quadratic", "a"] == Best("x", 20, 0, 0) and best["quadratic", "b"].cost == math.inf
    assert Numbers(hits, [Setup(1e-6)]).best("quadratic", "c", Setup(1e-6)).setting == ""


def test_the_exponent_is_that_of_a_power(paper):
    sizes = [10.0, 100.0, 1000.0]
    assert exponent(sizes, [3 * size**0.5 for size in sizes]) == pytest.approx(0.5)
    assert math.isnan(exponent(sizes, [1.0, 2.0, math.inf]))


@pytest.mark.parametrize(("rival", "holds"), [(101, "holds"), (99, "does not hold")])
def test_the_verdict_names_who_is_cheapest(paper, rival, holds):
    numbers = Numbers(made(rg_saga={"lam = 1": [100] * 3}, gd={"lr = 1": [rival] * 3}), paper.setups)
    one = replace(paper, settings={"quadratic": replace(paper.settings["quadratic"], contenders=["rg-saga", "gd"])})
    sentence = words.least(one, numbers, "quadratic", paper.setups[0])
    assert sentence.endswith(f"of all {holds}.") and f"GD, the cheapest of the others, {rival}" in sentence


def test_the_verdict_fits_the_growth_and_compares_prices(paper):
    frames = [
        made(rg_saga={"": [round(10 * n**power)] * 3}).with_columns(problem=pl.lit(f"n-{n}"))
        for n, power in ((10, 0.5), (100, 0.5), (1000, 0.5))
    ]
    numbers = Numbers(pl.concat(frames), paper.setups)
    sizes = {f"n-{n}": float(n) for n in (10, 100, 1000)}
    assert words.growth(paper, numbers, list(sizes), sizes).endswith("the bar of 0.5 ± 0.1 is met.")
    slow = Numbers(pl.concat([frames[0], frames[0].with_columns(problem=pl.lit("n-100")), frames[2]]), paper.setups)
    assert words.growth(paper, slow, list(sizes), sizes).endswith("is met.") == (
        abs(exponent([10, 100, 1000], [32, 32, 316]) - 0.5) <= 0.1
    )
    flat = Numbers(
        made(rg_saga={"": [100] * 3}, rg_svrg={"": [100] * 3}).with_columns(draws_arbitrary=pl.Series([0] * 3 + [10] * 3)),
        paper.setups,
    )
    assert "I-CGM, RG-SAGA costs 1 times as much" in words.prices(paper, flat, "quadratic")
    assert f"RG-SVRG costs {300 / 110:.4g} times" in words.prices(paper, flat, "quadratic")


def test_what_did_not_arrive_is_not_compared(paper):
    late = {"": [None] * 3}
    numbers = Numbers(made(rg_saga={"": [10] * 3}, adaptive=late, rg_svrg=late), paper.setups)
    assert words.beyond(paper, numbers, "quadratic", "adaptive").endswith("the bar of 1.5 is not met.")
    assert "RG-SVRG costs (not known) times" in words.prices(paper, numbers, "quadratic")
    reached = Numbers(made(rg_saga=late, adaptive={"": [10] * 3}), paper.setups)
    assert words.beyond(paper, reached, "quadratic", "adaptive").endswith(
        "(not known) times the best of the grid: the bar of 1.5 is met."
    )


def test_the_verdict_compares_the_rule_for_initial_passes_with_the_best_number_of_them(paper):
    frame = made(rg_saga={"": [110] * 3}, passes_1={"": [130] * 3}, passes_2={"": [60] * 3})
    hits = frame.with_columns(draws_arbitrary=pl.Series([0] * 3 + [10] * 3 + [20] * 3))
    sentence = words.passes(paper, Numbers(hits, paper.setups), "quadratic")
    assert "2, 0, 0 and 0 initial passes at C_A = 1, 5, 10 and 20" in sentence and "cost 1, 1, 1 and 1 times the best" in sentence
    hits = hits.with_columns(draws_arbitrary=pl.Series([0] * 3 + [10] * 3 + [5] * 3))
    sentence = words.passes(paper, Numbers(hits, paper.setups), "quadratic")
    assert f"cost 1, {110 / 85:.4g}, 1 and 1 times" in sentence


def test_what_cannot_be_played_is_told_in_one_sentence(paper, monkeypatch):
    monkeypatch.delenv("TURNOUT_DATA", raising=False)
    with pytest.raises(UserError, match="cost-aware has no set 'a6a': it has quadratic, mushrooms"):
        plan_of(paper, [], ["a6a"], 3, None)
    with pytest.raises(UserError, match="no figure asked for shows mushrooms"):
        plan_of(paper, ["2"], ["mushrooms"], 3, None)
    with pytest.raises(UserError, match="data sets duke are not here"):
        plan_of(paper, [], ["duke"], 3, None)
    assert np.all([task.problem == "quadratic" for task in plan_of(paper, ["2"], ["quadratic"], 3, None).tasks()])
