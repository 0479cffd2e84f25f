"""The schema of studies: every mistake is one sentence with its place, and files, folders and tables agree."""

import json
import shutil
from pathlib import Path

import pytest
import tomli_w

import turnout as t
from tests.helpers.studies import STUDY, declared, tables
from turnout.studies.api import study
from turnout.studies.configurations import read_sources


def refused(path: Path, words: str) -> None:
    """A study that must not be played: one sentence, and nothing in the output folder."""
    out = path.parent / "out"
    with pytest.raises(t.UserError, match=words) as error:
        study(path, out)
    assert "\n" not in str(error.value) and not list(out.glob("*.parquet"))
    shutil.rmtree(out, ignore_errors=True)


MISTAKES = [
    (('"algorithm.lr" = [0.001, 0.01]', '"algorithm.lrr" = [1]'), "lrr", "unknown key 'lrr': did you mean 'lr'"),
    (("lr = [0.1, 0.3]", "lr = [0.1, -1]"), "-1", "algorithm.lr: must be greater than 0, but it is -1"),
    (("lr = [0.1, 0.3]", 'lr = ["x"]'), '["x"]', "algorithm.lr: must be a number greater than 0, but it is 'x'"),
    (("lr = [0.1, 0.3]", "lr = 0.1"), "algorithm.lr = 0.1", "grid algorithm.lr needs a list of values"),
    (("lr = [0.1, 0.3]", "lr = [0.1, 0.1]"), "[0.1, 0.1]", "two alternatives are called 0.1"),
    (("size = [2, 3]", "size = [2, 99]"), "[methods.mbgd]", "mbgd on made with lr = 0.1, size = 99: sampler 'nice' wants 99"),
    (("sampler.size = [2, 3]", 'sampler = ["nise"]'), "nise", "sampler.kind: unknown sampler kind 'nise': did you mean 'nice'"),
    (("sampler.size = [2, 3]", 'sampler = [{ kind = "delegate", size = 2 }]'), "delegate", "sampler.size: unknown key 'size'"),
    (("sampler.size = [2, 3]", 'sampler = ["stratified"]'), "[methods.mbgd]", "with lr = 0.1, sampler = stratified: .* strata"),
    (("sampler.size = [2, 3]", "problem.paarts = [2]"), "paarts", "problem.paarts: unknown key 'paarts': did you mean 'parts'"),
    (('"1/L"', '"L/2"'), "[0.1, 0.3]", "scale 'L/2' is no constant of this problem: known are L, 1/L, n, m/n"),
    (('kind = "mbgd"', 'kind = "mbdg"'), "mbdg", "algorithm.kind: unknown algorithm kind 'mbdg'"),
    (
        ('problems = ["made"]', 'problems = ["maid"]'),
        "maid",
        "methods.mbgd.problems: unknown problem 'maid': did you mean 'made'",
    ),
    (('title = "FedAvg"', "titel = 1"), "titel", "methods.fedavg.titel: unknown key 'titel': did you mean 'title'"),
    (("dimension = 5, flat", "dimensions = 5, flat"), "dimensions", "problems.flat.problem.dimensions: unknown key"),
    (("rounds = 8", "round = 8"), "round = 8", "run.round: unknown key 'round': did you mean 'rounds'"),
    (("rounds = 8", "rounds = 8\nseed = 1"), "seed = 1", "run.seed: the seeds of a study are at its top"),
    (("seeds = 3", "seeds = [1, 1]"), "[1, 1]", "seeds are a number of at least 1 or a list of different ones"),
    (("seeds = 3", "seeds = [1]\ntuning.seeds = [0, 1]"), "seeds = [1]", "settings are chosen on seed 1 already"),
    (("seeds = 3", 'seeds = 3\ntuning = { seeds = 2, goal = "nearr" }'), "nearr", "tuning.goal: unknown goal 'nearr'"),
    (('metric = "gradient"', 'metric = "gradiant"'), "[goals.near]", "goals.near: unknown metric 'gradiant'"),
    (('metric = "gradient"', 'metric = "accuracy"'), "[methods.fedavg]", "fedavg on made with lr = 0.001: .*has no accuracy"),
    (("share = 0.5", "shar = 0.5"), "shar", "goals.near.shar: unknown key"),
    (("c1 = 0.5", "c1 = -0.5"), "c1", "prices.dear.c1: must be at least 0"),
    (('method = "fedavg"', 'method = "fedavgg"'), "fedavgg", "claims.method: unknown method 'fedavgg': did you mean 'fedavg'"),
    (("at_most = 2.0", 'at_most = 2.0\ngoal = "far"'), "far", "claims.goal: unknown goal 'far'"),
    (("at_most = 2.0", 'problems = ["x"]'), '["x"]', "claims.problems: unknown problem 'x'"),
    (("share = 0.5", 'share = 0.5\nwhere = { "sampler.sise" = 2 }'), "where", "unknown swept key 'sampler.sise': did you mean"),
    (("seeds = 3", 'seeds = "3 to 5"'), "3 to 5", "seeds '3 to 5' are no range: write a range such as"),
    (('title = "FedAvg"', "seeds = [1, 1]"), "[1, 1]", "methods.fedavg.seeds: seeds are a number of at least 1 or a list"),
    (("seeds = 3", 'seeds = 3\nfindings = "nowhere.py:say"'), "nowhere", "nowhere.py cannot be imported"),
    (("[problems.made]", '[problems.made]\nmethods = ["fedavgg"]'), "fedavgg", "problems.made.methods: unknown method 'fedavgg'"),
    (
        ("[problems.made]", '[problems.made]\nmethods = ["fedavg"]'),
        'problems = ["made"]',
        "do not agree on whether mbgd plays there",
    ),
    (
        ("[problems.flat]", '[problems.flat]\nmethods = ["mbgd"]'),
        'problems = ["made"]',
        "do not agree on whether mbgd plays there",
    ),
    (("[goals.near]", "[gaols.near]"), "gaols", "gaols: unknown table 'gaols': did you mean 'goals'"),
    (("[run]", "[sweep]\nlr = [1]\n[run]"), "sweep", "sweep: unknown table"),
]


@pytest.mark.parametrize(("edit", "line", "words"), MISTAKES, ids=[words for *_, words in MISTAKES])
def test_a_mistake_is_one_sentence_with_its_line_and_nothing_is_played(tmp_path, edit, line, words):
    assert edit[0] in STUDY
    text = STUDY.replace(*edit)
    number = next(k for k, content in enumerate(text.splitlines(), start=1) if line in content)
    path = tmp_path / "study.toml"
    path.write_text(text)
    refused(path, f"study.toml, line {number}: .*{words}")


def test_missing_tables_are_told(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text("[methods.a]\nalgorithm = 'gd'\n")
    refused(path, r"table \[problems\] is missing")


def folder_of(folder: Path) -> Path:
    """Write the small study as a folder."""
    study = tables()
    for part in ("problems", "methods"):
        (folder / part).mkdir(parents=True)
        for name, content in study.pop(part).items():
            (folder / part / f"{name}.toml").write_text(tomli_w.dumps(content))
    (folder / "goals.toml").write_text(tomli_w.dumps({"goals": study.pop("goals")}))
    (folder / "study.toml").write_text(tomli_w.dumps(study))
    return folder


def test_a_folder_is_the_same_study_as_a_file(tmp_path):
    found = read_sources([folder_of(tmp_path / "folder")]).tables
    assert found == tables()


def test_a_mistake_in_a_folder_has_the_line_of_its_own_file(tmp_path):
    folder = folder_of(tmp_path / "folder")
    file = folder / "methods" / "mbgd.toml"
    file.write_text(file.read_text().replace('kind = "mbgd"', 'kind = "mbdg"'))
    with pytest.raises(t.UserError, match=rf"{file}, line \d+: algorithm.kind: unknown algorithm kind 'mbdg'"):
        study(folder)
    (folder / "more.toml").write_text("[goals.near]\nmetric = 'value'\n")
    with pytest.raises(t.UserError, match="metric is given in another file already"):
        study(folder)


def test_seeds_of_reported_runs_are_fresh():
    assert declared({**tables(), "tuning": {"seeds": 4}}).seeds == (4, 5, 6)
    assert declared({**tables(), "seeds": [7, 9], "tuning": {"seeds": [3]}}).tuned_on == (3,)
    assert declared(tables()).seeds == (0, 1, 2)


def test_methods_and_problems_may_have_seeds_of_their_own():
    study = tables() | {"seeds": "10-12", "tuning": {"seeds": 2}}
    study["problems"]["flat"] |= {"seeds": 1, "tuning_seeds": [7]}
    study["methods"]["mbgd"] |= {"seeds": [20, 21]}
    own = declared(study)
    assert own.seeds_of("made", "fedavg", "report") == (10, 11, 12) and own.seeds_of("made", "fedavg", "tune") == (0, 1)
    assert own.seeds_of("flat", "fedavg", "report") == (8,) and own.seeds_of("flat", "fedavg", "tune") == (7,)
    assert own.seeds_of("flat", "mbgd", "report") == (20, 21)


def test_a_part_of_a_study_has_some_of_its_problems_methods_and_seeds():
    whole = declared({**tables(), "seeds": [4, 2, 9]})
    part = whole.part(["made"], ["fedavg"], 2)
    assert part.pairs == [("made", "fedavg")] and part.seeds_of("made", "fedavg", "report") == (4, 2)
    assert not part.claims and whole.part(None, None, None) == whole
    for wrong, words in (
        ((["mad"], None, None), "problem 'mad'"),
        ((None, ["fedavgg"], None), "fedavgg"),
        ((None, None, 0), "seeds"),
    ):
        with pytest.raises(t.UserError, match=words):
            whole.part(*wrong)


def test_a_problem_names_the_methods_that_play_on_it():
    study = tables()
    study["problems"]["made"]["methods"] = ["mbgd"]
    assert declared(study).pairs == [("made", "mbgd"), ("flat", "fedavg")]


PLAIN = {
    "problem": {"kind": "log-sum", "clients": 6, "dimension": 5},
    "sampler": {"kind": "nice", "size": 2},
    "algorithm": {"kind": "fedavg", "lr": 0.01},
    "run": {"rounds": 4, "seed": 3},
    "target": {"metric": "gradient", "below": 10.0},
}


@pytest.mark.longer
def test_configurations_share_problems_goals_and_prices(tmp_path):
    other = {**PLAIN, "algorithm": {"kind": "mbgd", "lr": 0.1}, "sweep": {"lr": [0.1, 0.2], "seed": [0, 1]}}
    third = {**other, "problem": {**PLAIN["problem"], "clients": 7}, "price": [{"kind": "bytes"}]}
    paths = []
    for name, content in (("a", PLAIN), ("b", other), ("c", third)):
        paths.append(tmp_path / f"{name}.toml")
        paths[-1].write_text(tomli_w.dumps(content))
    source = read_sources(paths)
    assert {name: method["seeds"] for name, method in source.tables["methods"].items()} == {"a": [3], "b": [0, 1], "c": [0, 1]}
    assert {name: method["problems"] for name, method in source.tables["methods"].items()} == {
        "a": ["log-sum"], "b": ["log-sum"], "c": ["log-sum-2"],
    }  # fmt: skip
    assert source.tables["methods"]["b"]["grid"] == {"algorithm.lr": [0.1, 0.2]}
    assert list(source.tables["goals"]) == ["gradient < 10"] and list(source.tables["prices"]) == ["exchanges", "bytes"]
    paths[1].write_text(tomli_w.dumps({**other, "sweep": {"lr": [0.1, -1]}}))
    with pytest.raises(t.UserError, match="b.toml, line .*lr: must be greater than 0"):
        study(paths)
    (tmp_path / "study.toml").write_text(STUDY)
    with pytest.raises(t.UserError, match="study.toml is a whole study"):
        study([*paths, tmp_path / "study.toml"])
    with pytest.raises(t.UserError, match="two configurations are named 'a'"):
        study([paths[0], paths[0]])


def test_what_a_declaration_holds_can_be_written():
    assert json.dumps(tables()) and declared(tables()).pairs == [("made", "fedavg"), ("made", "mbgd"), ("flat", "fedavg")]
