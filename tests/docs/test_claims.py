"""The page of claims: what it points to exists, and every verdict is what the published numbers and the tests say."""

import ast
import csv
import math
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.site_hooks import hook

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "src" / "turnout" / "papers"
CLAIMS = hook("claims")
DECLARED = [(name, claim) for name, paper in CLAIMS.papers().items() for claim in paper["claim"]]
KEYS = {"where", "says", "printed", "verdict", "why", "measured", "command", "at_least", "at_most"}


@cache
def names_in(path: str) -> set[str]:
    """The names of the tests of a file."""
    return {node.name for node in ast.parse((ROOT / path).read_text()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("paper", CLAIMS.PAPERS)
def test_every_verdict_is_what_was_measured(paper):
    """Names of results, tables, columns, methods and findings are checked by their use."""
    for claim in CLAIMS.papers()[paper]["claim"]:
        assert KEYS >= {*claim} >= {"where", "says", "printed", "verdict"} and all(claim.values()), claim
        assert claim["verdict"] == CLAIMS.verdict(CLAIMS.lines(claim)), claim["says"]
        assert claim["verdict"] == CLAIMS.HOLDS or claim["why"], claim["says"]
        for entry in claim.get("measured", []):
            if "test" in entry:
                path, _, name = entry["test"].partition("::")
                assert name.startswith("test_") and name in names_in(path), entry["test"]
            elif "claim" not in entry:
                assert {"at_least", "at_most"} & {*claim, *entry}, claim["says"]


def test_commands_name_studies_with_their_problems_and_methods():
    commands = {entry["command"] for _, claim in DECLARED for entry in (claim, *claim.get("measured", [])) if "command" in entry}
    for command in commands:
        if command.startswith("python"):
            path, _, name = command.split()[-1].partition("::")
            assert name in names_in(path)
            continue
        if command.startswith("turnout study"):
            assert (ROOT / command.split()[2] / "study.toml").exists()
            continue
        study = STUDIES / re.match(r"turnout reproduce (\S+) ", command)[1]
        for part, names in re.findall(r"--(problems|methods) (\S+)", command):
            declared = tomllib.loads((study / f"{part}.toml").read_text())
            assert {*names.split(",")} <= {*declared.get(part, declared)}, command


def test_the_page_has_every_claim_with_its_verdict_and_the_headlines_first():
    page = CLAIMS.inserted((ROOT / "docs" / "claims.md").read_text())
    assert CLAIMS.MARK not in page
    rows = [re.split(r"(?<!\\) \| ", line) for line in page.splitlines() if re.match(r"\| (?!section|---)", line)]
    assert len(rows) == len(DECLARED) and all(len(row) == 6 and all(row) for row in rows)
    assert [re.match(r"\*\*(.+?)\*\*", row[4])[1] for row in rows] == [claim["verdict"] for _, claim in DECLARED]
    for _, rest in (part.partition("\n")[::2] for part in page.split("\n## ")[1:]):
        assert re.search(r"^\| (?!section|---)(.*)", rest, flags=re.MULTILINE)[1].startswith("Abstract")


def test_a_ratio_of_the_first_claim_is_that_of_its_table():
    with (ROOT / "results" / "cohort-squeeze" / "tables" / "to-0.005-exchanges.csv").open() as file:
        rows = {row["method"]: row for row in csv.DictReader(file) if row["problem"] == "a6a"}
    mine, other = rows["sppm-bfgs"], rows["localgd-nice"]
    saved = 100 * (1 - float(mine["cost"]) / float(other["cost"]))
    most = 100 * (1 - float(mine["interval_low"]) / float(other["interval_high"]))
    line = CLAIMS.lines(DECLARED[0][1])[0]
    assert (
        line.text.startswith(f"✗ a6a, rows as they are: {saved:.3g} % [")
        and f", {most:.3g}] (" in line.text
        and line.met is False
    )
    assert line.command.startswith("turnout reproduce cohort-squeeze ")


def test_numbers_of_tables_are_read():
    number = CLAIMS._number
    assert number("1,482") == CLAIMS.Number(1482) and number("3/16").value == 3 / 16 and number("never").value == math.inf
    assert number("112 (82 – 1,291)") == CLAIMS.Number(112, 82, 1291)
    assert number("0.5 ± 0.1") == pytest.approx((0.5, 0.5 - 0.196, 0.5 + 0.196))


def test_an_interval_that_includes_the_bound_decides_nothing():
    ratio = CLAIMS.quotient(CLAIMS.Number(10, 8, 12), CLAIMS.Number(20, 16, 24), True)
    assert ratio == pytest.approx((0.5, 8 / 24, 12 / 16))
    outcomes = [CLAIMS.met(ratio, {"at_most": bound}) for bound in (0.8, 0.5, 0.3)]
    assert outcomes == [True, None, False]
    assert [CLAIMS.met(ratio, {"at_least": bound}) for bound in (0.8, 0.5, 0.3)] == outcomes[::-1]
    never = CLAIMS.Number(math.inf, math.inf, math.inf)
    assert CLAIMS.met(CLAIMS.quotient(never, never, True), {"at_most": 1}) is None
    assert CLAIMS.met(CLAIMS.quotient(CLAIMS.Number(10, 8, 12), never, True), {"at_most": 1}) is True


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([], "not tested"),
        ([True, True], "holds"),
        ([True, None], "holds under a condition"),
        ([True, False], "holds under a condition"),
        ([None, False], "does not hold"),
        ([None], None),
    ],
)
def test_verdicts_follow_from_outcomes(outcomes, verdict):
    assert CLAIMS.verdict([CLAIMS.Line("", met, "") for met in outcomes]) == verdict


@pytest.mark.parametrize(
    "entry", [{"finding": "no such (?P<value>sentence)"}, {"table": "costs", "column": "exchanges", "of": {"sampler": "nobody"}}]
)
def test_what_points_to_nothing_is_an_error(entry):
    with pytest.raises(ValueError, match=r"nothing in k-vib matches|costs.csv has no row"):
        CLAIMS.lines({"says": "a claim", "measured": [{"on": "it", "result": "k-vib", **entry}]})
