"""Studies that are played: the numbers are those of `run` and `sweep`, runs are kept, and what breaks stops nothing else."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import tomli_w
from polars.testing import assert_frame_equal

import turnout as t
from tests.helpers.studies import STUDY, tables
from turnout.data import IidSplit, load
from turnout.studies import conduct, play
from turnout.studies.study import Study


@pytest.fixture(scope="module")
def problem() -> t.Problem:
    return t.Quadratic.random(12, 5, seed=1)


def both(problem: t.Problem, **changes) -> dict:
    """A study of two algorithms on one problem."""
    return {
        "seeds": 5,
        "run": {"rounds": 25},
        "problems": {"made": problem},
        "methods": {
            "mbgd": {"algorithm": t.MbGd(t.Nice(4), lr=0.1), "grid": {"algorithm.lr": [0.02, 0.05]}},
            "gd": t.Gd(t.Full(), lr=0.1),
        },
        "goals": {"near": {"metric": "gradient", "share": 0.2}, "below": {"metric": "gradient", "below": 1.0}},
        "prices": {"exchanges": {"kind": "exchanges"}, "bytes": {"kind": "bytes"}},
        "claims": [{"method": "gd", "rival": "mbgd", "at_most": 0.9}],
        **changes,
    }


@pytest.fixture(scope="module")
def played(problem, tmp_path_factory) -> tuple[Study, Path]:
    folder = tmp_path_factory.mktemp("played")
    return t.study(both(problem), folder), folder


@pytest.mark.slow
def test_costs_are_those_of_a_sweep(problem, played):
    study, _ = played
    target = t.Target("gradient", below=1.0)
    for algorithm, name, grid in (
        (t.MbGd(t.Nice(4), lr=0.1), "mbgd", {"lr": [0.02, 0.05]}),
        (t.Gd(t.Full(), lr=0.1), "gd", {"lr": [0.1]}),
    ):
        swept = t.sweep(algorithm, problem, grid, seeds=range(5), rounds=25, target=target)
        for price in (t.Exchanges(), t.Bytes(), t.Hierarchical(0.5, 2.0)):
            mine = study.costs("below", price).filter(pl.col("method") == name).sort("cost")
            assert mine.select("cost", "reached").rows() == swept.costs(price).select("cost", "reached").rows()


@pytest.mark.longer
def test_a_row_is_that_of_the_run_alone(problem, played):
    study, _ = played
    alone = t.run(t.MbGd(t.Nice(4), lr=0.05), problem, rounds=25, seed=3, metrics=("gradient",)).frame
    mine = study.runs.filter(pl.col("setting") == "lr = 0.05", pl.col("seed") == 3)
    np.testing.assert_allclose(mine["gradient"], alone["gradient"], rtol=1e-12)
    assert mine.select("round", "exchanges", "bytes_up").rows() == alone.select("round", "exchanges", "bytes_up").rows()


@pytest.mark.slow
def test_runs_are_one_table_in_the_order_of_the_study(played):
    study, folder = played
    runs = study.runs
    keys = ["problem", "method", "setting", "algorithm.lr", "seed", "purpose", "round"]
    assert runs.columns[: len(keys) + 1] == [*keys, "gradient"]
    assert runs["method"].unique(maintain_order=True).to_list() == ["mbgd", "gd"]
    assert runs.select("seed", "round").rows() == 3 * [(seed, k) for seed in range(5) for k in range(26)]
    assert pl.read_parquet(folder / "runs.parquet").equals(runs)


@pytest.mark.slow
def test_runs_that_are_there_are_not_played_again(problem, played, monkeypatch):
    study, folder = played
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    again = t.study(both(problem, goals={"far": {"metric": "gradient", "below": 1e-3, "hold": "stays"}}), folder)
    assert again.runs.equals(study.runs)
    seen: list = []
    more = t.study(both(problem, seeds=6), folder, watch=lambda now: seen.append((now.runs, now.all_runs)))
    assert (seen[0], seen[-1]) == ((15, 18), (18, 18))
    assert more.runs.filter(pl.col("seed") < 5).equals(study.runs)
    after = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert before.items() < after.items() and len(after) == len(before) + 2


class PerReply:
    """A price of a user's own."""

    unit, label = "replies", "replies"

    def cost(self, events):
        return events["aggregated"]


@pytest.mark.longer
def test_a_price_may_be_an_object(problem, played):
    study, folder = played
    prices = {"mine": PerReply(), "hubs": t.Hierarchical(c1=0.1, c2=1.0), "table": {"kind": "hierarchical", "c1": 0.1, "c2": 1.0}}
    priced = t.study(both(problem, prices=prices), folder)
    assert priced.runs.equals(study.runs)
    costs = {name: priced.costs(price=name)["cost"].to_list() for name in prices}
    assert costs["hubs"] == costs["table"] != costs["mine"]


@pytest.mark.longer
def test_workers_and_files_give_the_same_runs(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    one, two = t.study(path, tmp_path / "one"), t.study(tables(), tmp_path / "two", workers=2)
    assert not one.broken and one.runs.equals(two.runs)
    assert (tmp_path / "one" / "runs.parquet").read_bytes() == (tmp_path / "two" / "runs.parquet").read_bytes()


@pytest.mark.slow
def test_a_broken_run_stops_nothing_else(problem, tmp_path):
    lossy = {"algorithm": t.MbGd(t.Nice(4), lr=0.1), "faults": {"loss": 0.02}, "run": {"rounds": 10}}
    study = both(problem)
    study["methods"] = {"lossy": lossy, "gd": study["methods"]["gd"]}
    study["claims"] = []
    done = t.study(study, tmp_path)
    lost = {run.seed for run, _ in done.broken}
    kept = set(done.runs.filter(pl.col("method") == "lossy")["seed"])
    assert lost and kept and lost | kept == set(range(5)) and not lost & kept
    assert all("replies were lost" in why for _, why in done.broken)
    assert done.best()["seeds"].to_list() == [len(kept), 5]
    assert f"could not be played (broken), such as lossy on {done.broken[0][0].problem}" in done.table().notes[-1]
    assert len(json.loads((tmp_path / "summary.json").read_text())["broken"]) == len(lost)


@pytest.mark.longer
def test_tuned_settings_are_reported_on_fresh_seeds(problem):
    done = t.study(both(problem, tuning={"seeds": 3, "goal": "below"}))
    seeds = done.runs.group_by("method", "purpose", maintain_order=True).agg(
        pl.col("seed").unique().sort(), pl.col("setting").n_unique()
    )
    assert seeds.rows() == [
        ("mbgd", "tune", [0, 1, 2], 2),
        ("mbgd", "report", [3, 4, 5, 6, 7], 1),
        ("gd", "report", [3, 4, 5, 6, 7], 1),
    ]
    tuned = done.costs("below").filter(pl.col("purpose") == "tune").sort("cost", "queries")
    assert done.best("below")["setting"].to_list() == [tuned["setting"][0], ""]
    assert "chosen on seeds 0 to 2 and are reported on seeds 3 to 7" in done.table().notes[-1]


@pytest.mark.longer
def test_settings_are_chosen_for_each_pair_of_a_goal_and_a_price(problem):
    goals = {"near": {"metric": "gradient", "share": 0.9}, "far": {"metric": "gradient", "share": 0.05}}
    done = t.study(both(problem, goals=goals, tuning={"seeds": 3, "goal": ["near", "far"], "price": ["exchanges", "bytes"]}))
    for goal in goals:
        for price in ("exchanges", "bytes"):
            tuned = done.costs(goal, price).filter(pl.col("purpose") == "tune", pl.col("method") == "mbgd")
            best = done.best(goal, price).filter(pl.col("method") == "mbgd")
            assert best["setting"].item() == tuned.sort("cost", "mean", "queries", "best")["setting"][0]
    reported = done.runs.filter(pl.col("purpose") == "report", pl.col("method") == "mbgd")["setting"].unique()
    assert {*reported} == {done.best(goal)["setting"][0] for goal in goals}


@pytest.mark.longer
def test_a_goal_without_a_level_compares_best_values(problem):
    done = t.study(both(problem, goals={"least": {"metric": "value"}}, claims=[{"method": "gd", "rival": "mbgd"}]))
    least = done.runs.group_by("method", "setting", "seed").agg(pl.col("value").min()).filter(pl.col("method") == "gd")
    assert done.best()["cost"].to_list()[1] == least["value"].median() and list(done.tables()) == [("least", "exchanges")]
    assert "the best value" in done.table().title.lower() and "comes to" in str(done.claims()[0])
    assert done.table().headings[3] == "value"


@pytest.mark.longer
def test_a_claim_on_best_accuracies_is_about_error_rates():
    data = load("breast_cancer").normalized("columns")
    classifier = t.Logistic.of(data, IidSplit(clients=6).split(data), mu=0.1)
    done = t.study(
        {
            "run": {"rounds": 2},
            "problems": {"made": classifier},
            "methods": {"slow": t.Gd(t.Full(), lr=1e-9), "quick": t.Gd(t.Full(), lr=0.5)},
            "goals": {"best": {"metric": "accuracy"}},
            "claims": [{"method": "quick", "rival": "slow", "at_most": 0.9}],
        }
    )
    (claim,) = done.claims()
    errors = {name: 1 - done.runs.filter(pl.col("method") == name)["accuracy"].max() for name in ("quick", "slow")}
    assert claim.ratio.value == pytest.approx(errors["quick"] / errors["slow"]) and errors["quick"] < errors["slow"]
    assert claim.claim.startswith("the best error rate: quick comes to at most 0.9 times what slow comes to")


@pytest.mark.longer
def test_a_goal_may_be_about_part_of_the_settings(problem):
    goal = {"metric": "gradient", "share": 0.5, "where": {"algorithm.lr": 0.02}, "stop": True}
    done = t.study(both(problem, goals={"near": goal}, claims=[]))
    assert done.costs()["setting"].to_list() == ["lr = 0.02"]
    rows = done.runs.group_by("method", "setting").agg(pl.len())
    stopped = {row["setting"]: row["len"] for row in rows.iter_rows(named=True)}
    assert stopped["lr = 0.05"] == 5 * 26 > stopped["lr = 0.02"]


@pytest.mark.longer
def test_a_study_says_what_its_own_function_finds(problem, tmp_path):
    (tmp_path / "own.py").write_text("def say(study):\n    return [f'{study.runs.height} rows']\n")
    study = {"findings": f"{tmp_path / 'own.py'}:say", "run": {"rounds": 2}, "problems": {"made": problem}}
    done = t.study({**study, "methods": {"gd": t.Gd(t.Full(), lr=0.1)}}, tmp_path / "out")
    assert done.findings() == ["3 rows"] == json.loads((tmp_path / "out" / "summary.json").read_text())["findings"]


EXHIBITS = """
import polars as pl
from turnout.studies.exhibits import OwnChart, OwnTable

def show(study):
    clients = study.case("made").problem.clients
    rows = pl.DataFrame({"clients & data": ["<all>"], "clients": [clients], "count": [study.runs.height], "share": [0.5]})
    points = {"data": {"values": [{"x": 1}]}, "mark": "point", "encoding": {"x": {"field": "x", "type": "quantitative"}}}
    return [OwnTable("sizes", "Sizes", "What was played.", rows), OwnChart("points", "Points", "One point.", points)]
"""


@pytest.mark.slow
def test_a_study_has_tables_and_charts_of_its_own(problem, tmp_path):
    (tmp_path / "own.py").write_text(EXHIBITS)
    study = {"exhibits": f"{tmp_path / 'own.py'}:show", "pictures": True, "run": {"rounds": 2}, "problems": {"made": problem}}
    t.study({**study, "methods": {"gd": t.Gd(t.Full(), lr=0.1)}}, tmp_path / "out")
    tables, figures = tmp_path / "out" / "tables", tmp_path / "out" / "figures"
    assert pl.read_csv(tables / "sizes.csv").row(0) == ("<all>", problem.clients, 3, 0.5)
    assert f"| <all> | {problem.clients} | 3 | 0.5 |" in (tables / "sizes.md").read_text()
    assert r"clients \& data & clients & count & share \\" in (tables / "sizes.tex").read_text()
    assert "<svg" in (figures / "points.svg").read_text() and (figures / "points.pdf").exists()
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<td>3</td>" in page and "&lt;all&gt;" in page and 'data-chart="points"' in page


@pytest.mark.slow
def test_a_run_ends_where_it_has_reached_the_goals_that_stop(problem, played):
    whole, _ = played
    goal = {"metric": "gradient", "share": 0.2, "stop": True}
    short = t.study(both(problem, goals={"near": goal, "below": {"metric": "gradient", "below": 1.0}}))
    assert short.costs("near").drop("best").equals(whole.costs("near").drop("best"))
    last = short.runs.filter(pl.col("method") == "gd", pl.col("seed") == 0)
    assert last.height < 26 and (last["gradient"] <= 0.2 * last["gradient"][0]).to_list() == [False] * (last.height - 1) + [True]


@pytest.mark.slow
def test_winners_are_named_beyond_doubt_only(problem, played):
    study, _ = played
    assert study.winner("made", "near") == "gd" and "gd is cheapest" in study.table().notes[0]
    holds = study.claims()
    assert [verdict.answer for verdict in holds] == ["holds"] and holds[0].ratio.interval.high <= 0.9
    twins = both(problem, methods={"one": t.MbGd(t.Nice(4), lr=0.05), "two": t.MbGd(t.Nice(5), lr=0.05)}, claims=[])
    tied = t.study(twins)
    assert tied.winner("made") is None and "no winner is certain" in tied.table().notes[0]
    few = t.study(both(problem, seeds=2))
    assert few.winner("made") is None and "2 seeds are fewer than 5" in few.table().notes[0]
    assert [verdict.answer for verdict in few.claims()] == ["is not decided"]


def test_a_level_that_nobody_reaches_is_told(problem):
    done = t.study(both(problem, goals={"never": {"metric": "gradient", "below": 1e-30}}, claims=[]))
    assert done.best()["cost"].to_list() == [np.inf, np.inf]
    assert done.winner("made") is None and done.table().notes[0] == "On made, no method reached the goal."
    met = done.table(t.Goal("gradient", below=1e9)).notes[0]
    assert met == "On made, the goal is met at the start: there is nothing to compare."
    assert "never" in done.table().markdown()


@pytest.mark.slow
def test_engines_and_seeds_that_one_program_cannot_share_are_played_one_by_one(problem, played):
    study, _ = played
    for further in ({"engine": "nodes"}, {"model_seed": 0}):
        alone = t.study(both(problem, seeds=2, run={"rounds": 25, **further}))
        mine = study.runs.filter(pl.col("seed") < 2)
        np.testing.assert_allclose(alone.runs["gradient"], mine["gradient"], rtol=1e-9)
        assert alone.runs["bytes_up"].to_list() == mine["bytes_up"].to_list()


@pytest.mark.slow
def test_a_program_of_many_runs_is_split_up(problem, monkeypatch):
    monkeypatch.setattr("turnout.studies.plan.TOGETHER", 3)
    sizes: list[int] = []

    def watched(program, *others):
        sizes.append(len(program.runs))
        return play.play(program, *others)

    monkeypatch.setattr("turnout.studies.workers.play", watched)
    assert t.study(both(problem)).runs["seed"].n_unique() == 5 and sizes == [3, 3, 3, 1, 3, 2]


@pytest.mark.tiers(quick=[], longer=["compiled"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_a_long_run_goes_on_from_its_checkpoint(problem, tmp_path, monkeypatch, engine):
    monkeypatch.setattr("turnout.studies.play.SECONDS", 0.0)
    monkeypatch.setattr("turnout.studies.play.SHARE", float("inf"))
    run = {"rounds": 30, "engine": engine, "every": 5}
    declared = both(problem, seeds=1, run=run, methods={"mbgd": t.MbGd(t.Nice(4), lr=0.1)}, claims=[])
    whole, rounds = t.study(declared), []

    def stop(progress):
        if progress.rounds >= 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        t.study(declared, tmp_path, watch=stop)
    (checkpoint,) = tmp_path.glob("runs/*.safetensors")
    content = checkpoint.read_bytes()
    again = t.study(declared, tmp_path, watch=lambda progress: rounds.append(progress.rounds))
    assert_frame_equal(again.runs, whole.runs)
    assert rounds[1] > 10 and [path.suffix for path in tmp_path.glob("runs/*")] == [".parquet"]
    for path in tmp_path.glob("runs/*.parquet"):
        path.unlink()
    checkpoint.write_bytes(content[: len(content) // 2])
    assert_frame_equal(t.study(declared, tmp_path).runs, whole.runs)


@pytest.mark.tiers(quick=[], slow=["25-True"])
@pytest.mark.parametrize(("rounds", "stop"), [(25, False), (25, True), (26, False)])
def test_runs_go_on_where_a_study_gets_more_rounds(problem, tmp_path, monkeypatch, rounds, stop):
    """A run of 26 rounds has a last row that one of 50 does not have, and a schedule over all rounds begins anew."""

    def declared(rounds):
        methods = {
            "mbgd": {"algorithm": t.MbGd(t.Nice(4), lr=0.1), "grid": {"algorithm.lr": [0.02, 0.05]}},
            "decays": t.MbGd(t.Nice(4), lr=0.1, schedule=t.schedules.Cosine()),
        }
        goals = {"near": {"metric": "gradient", "share": 0.2, "stop": stop}}
        return both(problem, run={"rounds": rounds, "every": 5}, goals=goals, claims=[], methods=methods)

    fresh, begun, chunks = t.study(declared(50), tmp_path / "fresh"), [], play.chunks
    t.study(declared(rounds), tmp_path / "out")
    monkeypatch.setattr(play, "chunks", lambda session, file: begun.append(session.round) or chunks(session, file))
    longer = t.study(declared(50), tmp_path / "out")
    assert longer.runs.equals(fresh.runs)
    assert stop or begun == ([25, 0] if rounds == 25 else [0, 0])


def test_a_folder_with_another_run_is_refused(problem, tmp_path):
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(t.UserError, match="holds another run"):
        t.study(both(problem), tmp_path)
    with pytest.raises(t.UserError, match="workers is a number of processes"):
        t.study(both(problem), workers=0)


@pytest.mark.longer
def test_an_interruption_keeps_what_was_played(problem, tmp_path):
    class Stop(KeyboardInterrupt):
        pass

    def watch(now: conduct.Progress) -> None:
        if now.runs:
            raise Stop

    with pytest.raises(Stop):
        t.study(both(problem), tmp_path, watch=watch)
    assert len(list((tmp_path / "runs").iterdir())) == 1 and not (tmp_path / "runs.parquet").exists()
    seen: list[int] = []
    t.study(both(problem), tmp_path, watch=lambda now: seen.append(now.runs))
    assert seen[0] == 10


OWN = """\
import turnout as t


@t.record
class Steps(t.Algorithm):
    sampler: t.Sampler
    lr: float
    steps: int = 1

    def round(self, ask, x):
        return x + ask(self.sampler, self.train, x).mean()

    @t.on_client
    def train(self, client, x):
        y = client.loop(self.steps, lambda y: y - self.lr * client.grad(y), x)
        return t.Done(y - x, queries=self.steps)


@t.record
class PerContact:
    each: float = 1.0
    unit = "contacts"

    @property
    def label(self):
        return f"contacts({self.each:g})"

    def cost(self, events):
        return self.each * events["contacts"]


class Plain(t.Algorithm):
    pass
"""


def own_study(folder: Path, kind: str = "mine.py:Steps") -> Path:
    """Write a study with an algorithm and a price of its own beside it."""
    (folder / "mine.py").write_text(OWN)
    made = {"problem": {"kind": "log-sum", "clients": 6, "dimension": 5}, "sampler": {"kind": "nice", "size": 2}}
    content = {
        "seeds": 2,
        "run": {"rounds": 5},
        "problems": {"made": made},
        "methods": {
            "mine": {"algorithm": {"kind": kind, "lr": 0.001}, "grid": {"algorithm.steps": [1, 3]}},
            "ours": {"algorithm": {"kind": "fedavg", "lr": 0.001}, "grid": {"algorithm.steps": [1, 3]}},
        },
        "goals": {"near": {"metric": "gradient", "share": 0.9}},
        "prices": {"contacts": {"kind": "mine.py:PerContact", "each": 2.0}},
    }
    path = folder / "study.toml"
    path.write_text(tomli_w.dumps(content))
    return path


@pytest.mark.slow
def test_a_class_beside_the_file_is_played_like_ours(tmp_path):
    done = t.study(own_study(tmp_path), tmp_path / "out", workers=2)
    assert not done.broken
    mine, ours = (done.runs.filter(pl.col("method") == name) for name in ("mine", "ours"))
    assert mine.drop("method").equals(ours.drop("method"))
    assert done.costs()["cost"].to_list() == (4 * done.costs(price=t.Exchanges())["cost"]).to_list()


@pytest.mark.slow
def test_other_code_of_a_class_is_played_anew(tmp_path):
    path = own_study(tmp_path)
    t.study(path, tmp_path / "out")
    mine = tmp_path / "mine.py"
    mine.write_text(mine.read_text() + "\n# Another version.\n")
    copy = tmp_path / "copy"
    copy.mkdir()
    mine.rename(copy / "mine.py")
    (copy / "study.toml").write_text(path.read_text())
    seen: list[int] = []
    t.study(copy / "study.toml", tmp_path / "out", watch=lambda now: seen.append(now.runs))
    assert seen[0] == 4


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("mine.py:Stepps", "mine.py has no class 'Stepps'"),
        ("other.py:Steps", "other.py cannot be imported .there is no such file"),
        ("no_such_module:Steps", "no_such_module cannot be imported .No module named"),
        ("mine.py:PerContact", "mine.py:PerContact is no algorithm: it must extend Algorithm"),
        ("mine.py:Plain", "mine.py:Plain is no record: decorate the class with @turnout.record"),
        ("turnout:Nice", "turnout:Nice is no algorithm"),
    ],
)
def test_a_class_that_is_no_part_is_one_sentence(tmp_path, kind, words):
    with pytest.raises(t.UserError, match=f"study.toml, line .*: methods.mine.algorithm.kind: {words}"):
        t.study(own_study(tmp_path, kind))
