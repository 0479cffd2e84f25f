"""Reproductions: the files of each paper, the runs they ask for, what is kept of them, and the arithmetic of the tables."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tests.helpers.commands import turnout
from turnout.accounting.prices import Exchanges, Hierarchical
from turnout.core.errors import UserError
from turnout.engines.sweep import set_leaves
from turnout.reproduce.costs.figures import convergence_panel, cost_panel
from turnout.reproduce.costs.paper import Line, read_family, read_paper
from turnout.reproduce.costs.play import Case, Task, grid, play, quantile, rounds, scale, sessions, single_sessions
from turnout.reproduce.costs.run import Plan, Player, fresh_tasks, tuning_tasks
from turnout.reproduce.costs.tables import Tables, medians, reduction, reported, tuned
from turnout.reproduce.costs.timing import one_by_one
from turnout.reproduce.papers import PAPERS, chosen, resolve

FAMILIES = sorted(PAPERS.glob("*/families/*.toml"))
TARGETS = [5e-3, 1e-2]


@pytest.fixture(scope="module")
def paper():
    return read_paper("cohort-squeeze")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two made LIBSVM files: ten clusters of 30 rows."""
    folder = tmp_path_factory.mktemp("data")
    for seed, name in enumerate(("tiny", "small")):
        generator = np.random.default_rng(seed)
        rows = np.repeat(generator.normal(size=(10, 4)) * 4, 30, axis=0) + generator.normal(size=(300, 4)) / 4
        signs = np.where(rows @ np.ones(4) + generator.normal(size=300) > 0, 1, -1)
        entries = [" ".join(f"{k}:{value:.6f}" for k, value in enumerate(row, start=1)) for row in rows]
        lines = [f"{sign} {entry}" for sign, entry in zip(signs, entries, strict=True)]
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def case(folder, paper):
    return Case.of(paper.family("localgd-nice", str(folder / "tiny")).experiment, None)


def some(family, settings, seeds=(0, 1), data="tiny", exchanges=12, fresh=False) -> Task:
    """A task with a small budget."""
    return Task(data, replace(family, spec=replace(family.spec, exchanges=exchanges)), settings, list(seeds), fresh)


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.stem)
def test_every_family_is_a_configuration_and_every_setting_fits_its_algorithm(path):
    family = read_family(path, "a9a")
    assert family.experiment.problem.data == "a9a"
    settings = grid(family)
    assert len({json.dumps(setting) for setting in settings}) == len(settings) > 0
    for setting in settings:
        set_leaves(family.experiment.algorithm, setting)


def test_figures_and_tables_name_families_and_settings_that_exist(paper):
    known = {path.stem for path in (PAPERS / paper.name / "families").glob("*.toml")}
    assert set(paper.tabled) <= known
    for figure in paper.figures.values():
        assert set(figure.needed) <= known and set(figure.sets) <= set(paper.sets)
        assert bool(figure.lines) == (figure.kind == "convergence") and set(figure.below) <= set(paper.targets)
        for line in figure.lines:
            where = {field.removeprefix("algorithm."): value for field, value in (line.where or {}).items()}
            settings = grid(paper.family(line.family, "a6a"))
            assert sum(all(setting.get(k) == v for k, v in where.items()) for setting in settings) == 1


def test_an_unknown_figure_or_paper_is_told_with_the_known_ones(paper):
    with pytest.raises(UserError, match="no figure '5': it has 1, 2a"):
        chosen(paper, ["2a", "5"])
    with pytest.raises(UserError, match="did you mean 'cohort-squeeze'"):
        read_paper("cohort-squeze")


def test_all_missing_data_sets_are_named_at_once(tmp_path, monkeypatch, folder):
    monkeypatch.delenv("TURNOUT_DATA", raising=False)
    with pytest.raises(UserError, match="data sets a6a, ijcnn1 are not here: run turnout data fetch"):
        resolve(["a6a", "breast_cancer", "ijcnn1"], tmp_path)
    with pytest.raises(UserError, match="a6a, mnist are not here: .* fetch a6a and put train-images.* from http"):
        resolve(["a6a", "mnist"], tmp_path)
    assert resolve(["tiny", "breast_cancer"], folder) == [str(folder / "tiny"), "breast_cancer"]


@pytest.mark.parametrize("inner", range(1, 40))
def test_a_sweep_has_enough_rounds_for_its_exchanges_and_at_most_twice_as_many(inner):
    assert 200 <= rounds(200, inner) * inner < 2 * (200 + inner)


def test_a_step_is_scaled_by_the_largest_smoothness(paper, case):
    problem = case.problem
    features = np.asarray(problem.rows[0])
    parts = [features[a:b] for a, b in zip(problem.offsets, problem.offsets[1:], strict=False)]
    largest = max(np.linalg.norm(part, 2) ** 2 / (4 * len(part)) + 0.1 for part in parts)
    assert scale(paper.family("localgd-nice", "tiny"), case, {"lr": 2.0})["lr"] == pytest.approx(2 / largest)
    assert scale(paper.family("mbgd", "tiny"), case, {})["lr"] == pytest.approx(0.5 / largest)
    assert scale(paper.family("sppm-bfgs", "tiny"), case, {"gamma": 7.0}) == {"gamma": 7.0}


def test_hits_are_the_first_rounds_below_the_targets_of_the_same_runs_one_by_one(paper, case):
    family = paper.family("sppm-bfgs", "tiny")
    task = some(family, [{"gamma": 10.0, "inner": 1}, {"gamma": 1.0, "inner": 3}, {"gamma": 10.0, "inner": 3}])
    hits, curves = play(task, case, TARGETS, lambda: None).values()
    traces = []
    for session in single_sessions(task, case):
        for _ in session.play():
            pass
        traces.append(session.trace)
    for k, trace in enumerate(traces):
        frame = trace.frame
        for row, below in zip(hits[2 * k : 2 * k + 2].iter_rows(named=True), TARGETS, strict=True):
            first = frame.filter(pl.col("distance") < below).head(1)
            assert row["below"] == below
            assert row["exchanges"] == (first["exchanges"][0] if first.height else None)
            assert row["iterations"] == (first["iterations"][0] if first.height else None)
            assert row["bytes"] == (first["bytes_down"][0] + first["bytes_up"][0] if first.height else None)
    assert hits["exchanges"].is_not_null().any()
    drawn = curves.filter(pl.col("gamma") == 10.0, pl.col("inner") == 1)
    pair = np.stack([trace.frame["distance"].to_numpy() for trace in traces[:2]])
    np.testing.assert_allclose(drawn["low"].to_numpy(), pair.min(axis=0), rtol=1e-9)
    np.testing.assert_allclose(drawn["median"].to_numpy(), pair.max(axis=0), rtol=1e-9)


def test_sweeps_hold_every_cell_once(paper, case):
    family = paper.family("sppm-bfgs", "tiny")
    task = some(family, grid(family), seeds=(3,))
    cells = [tuple(cell.settings.values()) for cells, _ in sessions(task, case) for cell in cells]
    assert sorted(cells) == sorted(tuple(setting.values()) for setting in grid(family)) and task.runs == len(cells)


def test_quantiles_occur_and_survive_infinity():
    rows = np.array([[1.0, np.inf], [2.0, np.inf], [3.0, 0.0], [4.0, np.inf]])
    assert quantile(rows, 0.5).tolist() == [3.0, np.inf]
    assert quantile(rows, 0.25).tolist() == [2.0, np.inf]


def test_one_by_one_counts_every_run(paper, case):
    task = some(paper.family("localgd-nice", "tiny"), [{"lr": 0.5}, {"lr": 1.0}])
    whole = one_by_one([task], lambda data: case, whole=True)
    assert (whole.sample, whole.runs) == (4, 4) and whole.seconds > 0 and "all 4 measured" in str(whole)
    sample = one_by_one([task, task], lambda data: case, whole=False)
    assert (sample.sample, sample.runs) == (4, 8) and "scaled by count" in str(sample)


def hits(costs: dict[tuple, list], fresh=False, family="f", data="d", below=5e-3) -> pl.DataFrame:
    """Hand-made hits: for each (gamma, inner) the exchanges of each seed, K of them a cohort and one of them rejected."""
    rows = [
        {
            "data": data, "family": family, "fresh": fresh, "gamma": gamma, "inner": inner, "seed": seed, "below": below,
            "exchanges": cost, "iterations": None if cost is None else cost - 1,
            "cohorts": None if cost is None else cost // inner, "bytes": cost,
        }
        for (gamma, inner), seeds in costs.items()
        for seed, cost in enumerate(seeds)
    ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col("exchanges", "iterations", "cohorts").cast(pl.Int64))


def test_a_median_counts_runs_that_never_arrive_as_infinite():
    frame = hits({(1.0, 2): [4, None, 8], (2.0, 2): [None, None, 6], (3.0, 2): [2, 2, None, None], (4.0, 2): [10, 20, 30, None]})
    found = {row["gamma"]: row["cost"] for row in medians(frame, Exchanges(), "exchanges").iter_rows(named=True)}
    assert found == {1.0: 8.0, 2.0: math.inf, 3.0: math.inf, 4.0: 30.0}


def test_costs_follow_the_price_and_the_unit():
    frame = hits({(1.0, 2): [6], (2.0, 10): [10]})

    def cost(price, unit):
        return {row["gamma"]: row["cost"] for row in medians(frame, price, unit).iter_rows(named=True)}

    assert cost(Exchanges(), "iterations") == {1.0: 5.0, 2.0: 9.0}
    assert cost(Hierarchical(c1=0.1, c2=1.0), "exchanges") == pytest.approx({1.0: 3.6, 2.0: 2.0})
    assert cost(Hierarchical(c1=0.1, c2=1.0), "iterations") == pytest.approx({1.0: 3.5, 2.0: 1.9})


def test_a_setting_is_chosen_by_the_seeds_that_tune_and_reported_on_fresh_ones():
    frame = pl.concat([
        hits({(1.0, 2): [4, 4, 4], (2.0, 2): [6, 6, 6]}),
        hits({(1.0, 2): [20, 30, None], (2.0, 2): [2, 2, 2]}, fresh=True),
    ])  # fmt: skip
    entry = tuned(frame, ["f"], "d", 5e-3, Exchanges(), "exchanges")
    assert entry.settings == {"gamma": 1.0, "inner": 2} and entry.tuned == 4
    assert reported(entry, frame).cost == 30
    nobody = tuned(hits({(1.0, 2): [None]}), ["f"], "d", 5e-3, Exchanges(), "exchanges")
    assert nobody.settings is None and reported(nobody, frame).cost == math.inf


def test_reductions_are_those_of_the_paper():
    assert reduction(10, 39) == pytest.approx(74.36, abs=0.005)
    assert reduction(2, 39) == pytest.approx(94.87, abs=0.005)
    assert reduction(2, 1.1 * 39) == pytest.approx(95.34, abs=0.005)
    assert reduction(math.inf, 39) is None and reduction(3, math.inf) is None and reduction(3, 2) == -50


def test_the_tables_ask_for_fresh_runs_of_what_they_show(paper):
    small = replace(paper, sets=["d"], targets=[5e-3], ladder=paper.ladder[:1], fresh=3)
    names = {"localgd-nice": 40, "localgd-nice-local": 50, "localgd-stratified": 30, "localgd-stratified-local": 20}
    tuning = pl.concat([
        *(hits({(1.0, 1): [cost]}, family=name).drop("gamma") for name, cost in names.items()),
        hits({(1.0, 2): [12], (10.0, 10): [14]}, family="sppm-bfgs"), hits({(1.0, 2): [None]}, family="sppm-cg"),
    ], how="diagonal")  # fmt: skip
    tables = Tables(small, ["d"], tuning)
    picked = tables.picked()
    assert picked[("d", "sppm-bfgs")] == [{"gamma": 1.0, "inner": 2}, {"gamma": 10.0, "inner": 10}]
    assert set(picked) == {("d", "sppm-bfgs"), ("d", "localgd-nice"), ("d", "localgd-stratified-local")}
    plan = Plan(small, [], True, ["d"], 1)
    assert all(task.fresh and min(task.seeds) > 100 for task in fresh_tasks(plan, picked))
    fresh = pl.concat([
        hits({(1.0, 1): [39]}, True, "localgd-nice").drop("gamma"), hits({(1.0, 1): [20]}, True, "localgd-stratified-local"),
        hits({(1.0, 2): [10], (10.0, 10): [10]}, True, "sppm-bfgs"),
    ], how="diagonal")  # fmt: skip
    tables.report(fresh)
    flat, hubs, _ = tables.rows()
    assert flat.reduction("exchanges") == pytest.approx(74.36, abs=0.005)
    assert flat.reduction("exchanges", "stratified") == pytest.approx(50)
    assert hubs.reduction("exchanges") == pytest.approx(95.34, abs=0.005)


def test_a_cost_panel_draws_the_medians_and_the_best_baseline(paper):
    frame = pl.concat([
        hits({(1.0, 1): [8, 9, None], (1.0, 2): [4, None, None], (5.0, 2): [2, 4, 6]}, family="sppm-bfgs", data="a6a"),
        hits({(0.0, 1): [30, 20, 40]}, family="localgd-nice", data="a6a"),
        hits({(0.0, 1): [None]}, family="localgd-stratified", data="a6a"),
    ])  # fmt: skip
    drawn = cost_panel(paper.figures["2a"], paper, "a6a", "sppm-bfgs", 5e-3, "exchanges", frame).chart.to_dict()
    assert drawn["layer"][0]["data"]["values"] == [
        {"K": 1, "cost": 9.0, "gamma": "γ = 1"},
        {"K": 2, "cost": 4.0, "gamma": "γ = 5"},
    ]
    assert [layer["data"]["values"] for layer in drawn["layer"][2:3]] == [[{"cost": 30.0, "text": "LocalGD, NICE: 30"}]]


def test_a_convergence_panel_leaves_out_what_a_log_axis_cannot_show(paper):
    values = [1.0, 0.1, 0.0, np.inf]
    curves = pl.DataFrame({"data": "d", "family": "f", "gamma": 1.0, "exchanges": [0.0, 1, 2, 3]}).with_columns(
        pl.Series(name, values) for name in ("low", "median", "high")
    )
    figure = replace(paper.figures["8"], lines=(Line("f", "γ = 1", {"algorithm.gamma": 1.0}),))
    drawn = convergence_panel(figure, "d", TARGETS, curves, {"one cohort": 0.02}).chart.to_dict()
    assert [row["median"] for row in drawn["layer"][1]["data"]["values"]] == [1.0, 0.1]
    # Three layers each: a dashed line, its text, and a halo behind that.
    assert [row["median"] for row in drawn["layer"][2]["data"]["values"]] == TARGETS
    assert [row["median"] for row in drawn["layer"][5]["data"]["values"]] == [0.02]


@pytest.mark.slow
def test_an_interrupted_reproduction_goes_on_with_the_same_results(paper, folder, tmp_path):
    figure = replace(paper.figures["8"], sets=["tiny", "small"])
    plan = Plan(paper, [figure], False, [str(folder / name) for name in ("tiny", "small")], 1)
    tasks = [some(task.family, task.settings[:1], task.seeds, task.data, 8) for task in tuning_tasks(plan)]

    def stop(label, done, of):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Player(plan, tmp_path / "a", stop).play(tasks)
    first, second = Player(plan, tmp_path / "a", lambda *_: None), Player(plan, tmp_path / "b", lambda *_: None)
    first.play(tasks)
    second.play(tasks)
    assert (first.results.reused, second.results.reused) == (1, 0)
    assert first.results.hits.equals(second.results.hits) and first.results.curves.equals(second.results.curves)
    more = [replace(task, seeds=[0, 1]) for task in tasks]
    again = Player(plan, tmp_path / "a", lambda *_: None)
    again.play(more)
    assert again.results.reused == 0 and set(again.results.hits["seed"]) == {0, 1}


def test_one_figure_from_the_command_line(folder, tmp_path):
    options = ("--figure", "8", "--sets", "tiny", "--data", folder, "--seeds", 1, "--out", tmp_path)
    code, out, err = turnout("reproduce", "cohort-squeeze", *options)
    assert (code, err) == (0, ""), err
    assert "compiled sweeps: 6 runs in" in out and "drawn at random" in out
    assert "panel" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "figures" / "figure-8.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "figures" / "figure-8.svg").read_text().startswith("<svg")
    assert set(pl.read_parquet(tmp_path / "results.parquet")["gamma"]) == {0.1, 1.0, 100.0}
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["seeds"] == {"tiny: prox-stratified": [0, 0]} and summary["command"].startswith("turnout reproduce")


def test_without_a_name_the_command_lists_what_there_is():
    code, out, _ = turnout("reproduce")
    assert code == 0 and out.startswith("cohort-squeeze: ") and "2a" in out
    code, _, err = turnout("reproduce", "cohort-squeeze")
    assert code == 2 and "--out" in err
