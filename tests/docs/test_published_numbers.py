"""The page of published numbers: every verdict is what the published results say, and each switch is a method of the study."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.helpers.site_hooks import hook

ROOT = Path(__file__).parents[2]
NUMBERS = hook("published_numbers")
CELLS = NUMBERS.declared()["cells"]
STUDY = ROOT / "src" / "turnout" / "papers" / "niid-bench"


@pytest.mark.parametrize("cell", CELLS, ids=[f"{cell['source']}-{cell['setting']}" for cell in CELLS])
def test_every_verdict_is_what_was_measured(cell):
    assert cell["verdict"] == NUMBERS.verdict(cell)
    assert cell["source"] in NUMBERS.declared()["sources"] and re.fullmatch(r"\d+(-\d+)?", cell["lines"])
    assert ("problems" in cell) == (len({"at_least", "at_most"} & {*cell}) == 1)


def test_bounds_are_on_the_side_of_the_published_difference():
    for cell in CELLS:
        published = float(cell["scaffold"].split()[0]) - float(cell["fedavg"].split()[0])
        assert published >= cell.get("at_least", published) and published <= cell.get("at_most", published)


def test_switches_are_methods_of_the_study_and_sources_are_read_at_a_commit():
    methods = tomllib.loads((STUDY / "methods.toml").read_text())["methods"]
    switches = {switch["method"] for switch in NUMBERS.declared()["switches"]}
    assert switches <= {*methods} and {name for cell in CELLS for name in cell.get("switches", [])} <= switches
    links = [
        link for switch in NUMBERS.declared()["switches"] for link in re.findall(r"github.com/\S+?/blob/(\S+?)/", switch["read"])
    ]
    links += [re.search(r"/blob/(\S+?)/", source["link"])[1] for source in NUMBERS.declared()["sources"].values()]
    assert len(links) >= 7 and all(re.fullmatch(r"[0-9a-f]{40}", link) for link in links)


def test_the_page_has_every_cell_and_every_switch():
    page = NUMBERS.inserted((ROOT / "docs" / "published-numbers.md").read_text())
    assert not any(mark in page for mark in NUMBERS.MARKS)
    assert NUMBERS.rounds() in page
    for table, entries in ((NUMBERS.cells(), CELLS), (NUMBERS.switches(), NUMBERS.declared()["switches"])):
        rows = [re.split(r"(?<!\\) \| ", line) for line in table.splitlines()[2:]]
        assert table in page and len(rows) == len(entries) and all(map(all, rows))


def test_differences_are_of_accuracies_with_the_ends_that_are_furthest_apart():
    mine, rival = (NUMBERS.accuracy("iid-100-perceptron", method) for method in ("scaffold", "fedavg"))
    found = NUMBERS.difference("iid-100-perceptron", "scaffold")
    assert 0 <= mine.low <= mine.value <= mine.high <= 100
    assert found == pytest.approx((mine.value - rival.value, mine.low - rival.high, mine.high - rival.low))


def test_the_page_has_all_printed_rounds_with_their_printed_speed_ups_and_all_of_ours():
    """The speed-ups are those in brackets in table 1 of the paper, which has one for each number of rounds."""
    rows = [line.split(" | ") for line in NUMBERS.rounds().splitlines()[2:]]
    assert [printed.partition(", ")[2] for _, _, printed, *_ in rows] == [
        *("", "3.6 ×", "4.1 ×", "4.2 ×", "4.5 ×"),
        *("", "4.9 ×", "5.3 ×", "7.4 ×", "8.6 ×"),
    ]
    table = [row for entry in NUMBERS.declared()["rounds"] for row in NUMBERS.claims.rows(entry["result"], NUMBERS.ROUNDS)]
    ours = {(entry["problem"], method) for entry in NUMBERS.declared()["rounds"] for method in entry["printed"]}
    assert {(row["problem"], row["method"]) for row in table} <= ours
    assert len([row for row in rows if row[3] != "–"]) == len(table)


@pytest.mark.parametrize(
    ("printed", "verdict"), [(52, "holds"), (55, "holds"), (87, "not explained: fewer"), (51, "not explained: more")]
)
def test_rounds_hold_within_the_range_of_ours(printed, verdict):
    assert NUMBERS.rounds_verdict(printed, {"low": "52.0", "high": "55.0"}) == verdict
    assert NUMBERS.rounds_verdict(printed, {"low": "inf", "high": "inf"}) == "not explained: more"
    assert NUMBERS.rounds_verdict(printed, None) == "not played"


@pytest.mark.parametrize(
    ("right", "switch", "verdict"),
    [
        ([True, True], [False], "holds"),
        ([False, False], [True], "explained"),
        ([False, False], [False], "not explained"),
        ([False, False], [True, False], "partly explained"),
        ([False, None], [True], "not decided"),
    ],
)
def test_verdicts_follow_from_outcomes(right, switch, verdict, monkeypatch):
    monkeypatch.setattr(NUMBERS, "agrees", lambda cell, method: right if method == "scaffold" else switch)
    assert NUMBERS.verdict({"problems": ["a"], "switches": ["one"]}) == verdict
    assert NUMBERS.verdict({"problems": ["a"]}) == ("not explained" if verdict not in ("holds", "not decided") else verdict)
    assert NUMBERS.verdict({}) == "not played"
