"""Published results that are played again: verdicts by enumeration, and the command on a study that is played here."""

import csv
import io
import json
import math
import random
import subprocess
import time
from itertools import combinations, combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import turnout
from tests.helpers.studies import STUDY, declared, tables
from turnout.experiment import provenance
from turnout.studies.conduct import Progress
from turnout.studies.published import NUMBERS, Published
from turnout.studies.replay import Clock, Held, Outcome, OutOfTime
from turnout.studies.replays import Replay, replay
from turnout.studies.statistics import median, quartiles
from turnout.studies.verdicts import possible, verdict

INF = np.inf


def row(all_costs: list[float]) -> dict[str, float]:
    """The numbers of a table for the costs of all seeds."""
    costs = np.asarray(all_costs, float)
    low, high = quartiles(costs)
    middle = float(median(costs))
    facts = {"cost": middle, "low": low, "high": high, "interval_low": low, "interval_high": high}
    return facts | {"reached": float(np.isfinite(costs).sum()), "seeds": float(costs.size)}


@pytest.mark.tiers(longer=["4"])
@pytest.mark.parametrize("seeds", [1, 2, 3, 4])
def test_a_part_of_the_seeds_is_possible_if_others_make_it_whole(seeds):
    """All costs among eight values are tried; the published ones are such that there is a value between any two of them."""
    values, among = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, np.inf], {2.0, 4.0, 6.0, np.inf}
    parts: dict[tuple, set[tuple]] = {}
    for whole in combinations_with_replacement(values, seeds):
        facts = row([*whole])
        if among >= {facts["low"], facts["cost"], facts["high"]}:
            some = (part for count in range(1, seeds + 1) for part in combinations(whole, count))
            parts.setdefault(tuple(facts[name] for name in NUMBERS), set()).update(some)
    assert parts
    for facts, known in parts.items():
        published = dict(zip(NUMBERS, facts, strict=True))
        for count in range(1, seeds + 1):
            for costs in combinations_with_replacement(values, count):
                assert possible(published, np.array(costs)) == (costs in known), (published, costs)


def test_what_cannot_be_among_the_seeds_is_told():
    published = row([1.0, 2.0, 3.0, 4.0, INF])
    assert possible(published, np.array([0.5])) and not possible(published, np.array([0.5, 1.5]))
    assert possible(published, np.array([INF])) and not possible(published, np.array([INF, INF]))
    assert not possible(row([2.0, 2.0, 2.0]), np.array([2.1])) and possible(row([2.0, 2.0, 2.0]), np.array([2.0 + 1e-7]))
    assert not possible(row([INF] * 5), np.array([7.0])) and not possible(row([1.0] * 5), np.array([INF]))


@pytest.mark.parametrize(
    ("costs", "exact", "told"),
    [
        ([1, 2, 3, 4, 5 + 1e-7], True, "equal"),
        ([1, 2, 3, 4.1, 5], True, "differs"),
        ([1, 2, 3, 4.1, 5], False, "within"),
        ([5, 6, 7, 8, 9], False, "differs"),
        ([3], True, "within"),
        ([3.5], True, "differs"),
        ([3.5], False, "within"),
        ([5], True, "open"),
        ([INF], True, "differs"),
        ([INF], False, "open"),
    ],
)
def test_verdicts(costs, exact, told):
    assert verdict(row([1, 2, 3, 4, 5]), row(costs), np.asarray(costs, float), exact) == told


def test_what_is_0_but_for_rounding_is_equal_and_numbers_may_be_below_0():
    """The regret of all clients is 0; a loss may be negative."""
    rounded, below = [-2e-16, 0.0, 4e-16], [-5.0, -4.0, -3.0]
    assert verdict(row([0.0, 0.0, 0.0]), row(rounded), np.array(rounded), True) == "equal"
    assert verdict(row(below), row(below), np.array(below), True) == "equal"
    part = np.array([-4.0])
    assert possible(row(below), part) and verdict(row(below), row([-4.0]), part, True) == "within"
    assert verdict(row([0.0, 0.0, 0.0]), row([1e-9] * 3), np.array([1e-9] * 3), True) == "differs"


def test_each_table_comes_first_and_what_took_too_long_once_more():
    """A published row for each method and problem of the small study; the first part of each table is too long at first."""
    declaration = declared(tables())
    numbers = row([1.0])
    rows = [{"problem": p, "method": m, "setting": f"{k}", **numbers} for p, m in declaration.pairs for k in range(4)]
    published = Published("made", "", "", True, {"near-exchanges": rows[:6], "near-dear": rows[6:], "own": []}, "")
    one, asked = Replay(Path(), published, declaration, random.Random(0)), []

    def hold(replay, part, seconds: float) -> Outcome:
        asked.append(part)
        if len(asked) == 1:
            return Outcome(needed=1.0)
        if len(asked) == 2:
            return Outcome(reason="it is not here")
        name = "near-exchanges" if part in first else "near-dear"
        return Outcome((Held(name, part, "equal", numbers, numbers, 1),))

    first = {(each["problem"], each["method"], each["setting"]) for each in rows[:6]}
    replay([one], 60.0, random.Random(0), hold)
    assert {*asked} == {*one.tables} and {*one.reasons} == {asked[1]} and not one.waiting
    # Of both tables a row is played before a further one is.
    assert {part in first for part in asked[2:4]} == {True, False}
    assert one.late == ({} if asked.count(asked[0]) == 2 else {asked[0]: 1.0}) and len(one.held) >= len(rows) - 2
    assert [*one.asked] == ["near-exchanges", "near-dear"]


def test_all_seeds_of_a_row_are_played_at_last():
    declaration, numbers = declared(tables()), row([1.0, 2.0])
    rows = [{"problem": p, "method": m, "setting": "0", **numbers} for p, m in declaration.pairs]
    published = Published("made", "", "", True, {"near-exchanges": rows, "near-dear": [], "own": []}, "")
    one, asked = Replay(Path(), published, declaration, random.Random(0)), []

    def hold(replay, part, seconds: float) -> Outcome:
        asked.append(part)
        return Outcome((Held("near-exchanges", part, "within", numbers, numbers, min(2, asked.count(part))),))

    replay([one], 60.0, random.Random(0), hold)
    assert sorted(asked[: len(rows)]) == sorted(asked[len(rows) :]) == sorted(one.tables)
    assert [each.seeds for each in one.held] == [2] * len(rows)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """A folder of results, with a part of the small study, which is beside it."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "study.toml").write_text(STUDY)
    study = ("study", folder / "study.toml", "--methods", "fedavg", "--seeds", 2)
    assert turnout(*study, "--out", folder / "results" / "small")[0] == 0
    return folder / "results"


def found(*arguments) -> tuple[int, dict]:
    """What a replay prints as JSON, and its exit code."""
    code, out, _ = turnout("verify", *arguments, "--json")
    return code, json.loads(out)


@pytest.mark.longer
def test_what_was_played_comes_out_again_and_what_is_changed_does_not(results, tmp_path):
    small = results / "small"
    code, told = found(results, "--minutes", 2, "--seed", 3, "--out", tmp_path / "found.json")
    held = {table["table"]: table for table in told["results"][0]["tables"]}
    assert code == 0 and {*held} == {"near-exchanges", "near-dear"} and told["seed"] == 3
    assert json.loads((tmp_path / "found.json").read_text()) == told
    rows = [row for table in held.values() for row in table["held"]]
    assert [row["verdict"] for row in rows] == ["equal"] * 8 and {row["played_seeds"] for row in rows} == {2}
    assert all(row["now"] == pytest.approx(row["published"]) for row in rows)
    assert json.loads((small / "summary.json").read_text()).items() >= provenance.provenance().items()

    # A number that was changed, and a setting that is none of the study's.
    file = small / "tables" / "near-exchanges.csv"
    stored = file.read_text()
    changed, gone, *others = csv.DictReader(io.StringIO(stored))
    before = f"published 77 (quartiles {float(changed['low']):g} – "
    with file.open("w") as tampered:
        writer = csv.DictWriter(tampered, changed)
        writer.writeheader()
        writer.writerows([changed | {"cost": 77.0}, gone | {"setting": "lr = 7"}, *others])
    code, out, _ = turnout("verify", small, "--minutes", 2, "--problems", changed["problem"])
    file.write_text(stored)
    assert code == 1 and before in out and f", now {float(changed['cost']):g} (quartiles " in out and "1 differs" in out
    assert "not played, 1 of small: by now the study does not have this setting" in out


@pytest.mark.slow
def test_what_takes_too_long_ends_in_time_and_says_how_long(results, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY.replace("rounds = 8", "rounds = 4000000"))
    summary = json.loads((results / "small" / "summary.json").read_text())
    (tmp_path / "out" / "tables").mkdir(parents=True)
    (tmp_path / "out" / "summary.json").write_text(
        json.dumps(summary | {"command": f"turnout study {tmp_path}/study.toml --methods fedavg --seeds 2 --out out"})
    )
    (tmp_path / "out" / "tables" / "near-dear.csv").write_bytes((results / "small" / "tables" / "near-dear.csv").read_bytes())
    code, told = found(tmp_path / "out", "--minutes", 0.1, "--problems", "flat")
    reasons = told["results"][0]["tables"][0]["not_played"]
    tried = ("one seed takes up to", "its time was over")
    assert code == 1 and any(reason.startswith(tried) for reason in reasons)


def test_runs_end_where_their_time_is_over_and_not_where_they_are():
    """A second after the end, and long before it."""
    now = time.monotonic()
    late = Clock(now - 1, False)
    late(Progress(runs=2, all_runs=2, rounds=10, all_rounds=10))
    with pytest.raises(OutOfTime) as error:
        late(Progress(runs=1, all_runs=2, rounds=5, all_rounds=10))
    assert error.value.seconds == math.inf
    early = Clock(now + 1e6, True)
    for rounds in (0, 0, 1):
        early(Progress(runs=0, all_runs=2, rounds=rounds, all_rounds=10))


SUMMARY = {
    "command": "turnout study gone.toml --out out",
    "date": "2026-01-01",
    "versions": {},
    "seeds": {"reported on": "seed 0"},
}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "its summary.json cannot be read"),
        ("[]", "its summary.json is not that of a study, or of another version of turnout"),
        (json.dumps(SUMMARY | {"seeds": {"run": 0}}), "its summary.json is not that of a study, or of another version"),
        (json.dumps(SUMMARY), "gone.toml"),
        (json.dumps(SUMMARY | {"command": "turnout.study"}), "it was made by turnout.study, of which the files are not known"),
        (json.dumps(SUMMARY | {"command": "turnout study --lost 1 a"}), "its command is none of this version"),
        (json.dumps(SUMMARY | {"command": "turnout reproduce fedavg --out out"}), "by now its study reports on seeds 0 to 2, in"),
        (json.dumps(SUMMARY | {"command": "turnout reproduce no-paper --out out"}), "unknown paper 'no-paper'"),
    ],
)
def test_a_result_that_cannot_be_played_says_why(text, why, tmp_path):
    (tmp_path / "out" / "tables").mkdir(parents=True)
    (tmp_path / "out" / "tables" / "a.csv").write_text("problem,sampler\nmade,nice\n")
    (tmp_path / "out" / "summary.json").write_text(text)
    code, told = found(tmp_path)
    assert code == 1 and why in told["results"][0]["not_played"]


def test_mistakes_are_told_in_one_sentence(tmp_path):
    for arguments, sentence in (
        ((tmp_path / "gone",), "there is no such folder"),
        ((tmp_path,), "has no results"),
        ((tmp_path, "--against", "flower"), "--against is about packages"),
        (("--seed", 3, "--methods", "sppm"), "are about published results"),
    ):
        code, out, errors = turnout("verify", *arguments)
        assert code == 2 and not out and sentence in errors and errors.count("\n") == 1


@pytest.mark.slow
def test_data_that_is_not_there_is_told_for_each_table(tmp_path, monkeypatch):
    monkeypatch.delenv("TURNOUT_DATA", raising=False)
    result = Path(__file__).parents[2] / "results" / "hospitals"
    code, told = found(result, "--minutes", 1, "--problems", "draw-0", "--data", tmp_path)
    reasons = [reason for table in told["results"][0]["tables"] for reason in table["not_played"]]
    assert code == 1 and reasons and all("heart.csv" in reason for reason in reasons)


def test_the_commit_is_that_of_the_checkout_that_has_the_package(tmp_path):
    root = Path(__file__).parents[2]
    git = ["git", "-C", str(root), "rev-parse", "--short=10", "HEAD"]
    head = subprocess.run(git, capture_output=True, text=True).stdout.strip() if (root / ".git").exists() else None
    assert (provenance.commit() or "").removesuffix("-dirty") == (head or "")
    # Below a checkout, a package that was installed is none of its files.
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "site-packages").mkdir()
    assert provenance.commit(tmp_path / "site-packages") is None
    assert provenance.machine().endswith("cores")
