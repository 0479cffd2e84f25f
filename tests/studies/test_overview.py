"""Matrices and forests: marks follow from intervals, colours from ratios, places from logarithms; names are only text."""

import math
import re
from html.parser import HTMLParser

import polars as pl
import pytest

from turnout.studies.claims import judged
from turnout.studies.overview import LEVELS, claim, forest_html, matrix, matrix_html
from turnout.studies.statistics import Interval, Ratio
from turnout.studies.tables import Row, Table

NAMES = "</script>one & two", "plain", "third"


def table(costs: dict[str, list[tuple[float, float, float]]], winners: dict[str, str]) -> Table:
    """A table of (cost, lower, upper bound) for each problem and each of NAMES."""
    rows, facts = [], []
    for problem, three in costs.items():
        for name, (cost, low, high) in zip(NAMES, three, strict=True):
            text = f"{cost:g}" if math.isfinite(cost) else "never"
            rows.append(Row(problem, name, "lr = 1", text, "–", f"{low:g} – {high:g}", "5/5", winners.get(problem) == name))
            facts.append({"cost": cost, "interval_low": low, "interval_high": high})
    sentences = {problem: f"About {problem}." for problem in costs}
    return Table("Cost", "cost", tuple(rows), sentences, "On five seeds.", pl.DataFrame(facts))


SURE = {"sure": [(2.0, 1.5, 3.0), (4.0, 2.5, 5.0), (math.inf, 9.0, math.inf)]}
OPEN = {"open": [(8.0, 6.0, 9.0), (5.0, 4.0, 6.0), (20.0, 19.0, 22.0)]}


def test_marks_and_ratios_of_cells():
    content = matrix(table(SURE | OPEN, {"sure": NAMES[0]}))
    assert content is not None and content["problems"] == ["sure", "open"] and content["methods"] == list(NAMES)
    sure, open_ = content["cells"]
    # A certain winner ends the question, though the second interval meets its own.
    assert [cell["mark"] for cell in sure] == ["wins", "", ""]
    assert [cell["mark"] for cell in open_] == ["ties", "ties", ""]
    assert [cell["times"] for cell in sure] == [1, 2, None] and [cell["times"] for cell in open_] == [1.6, 1, 4]


def test_who_reaches_nothing_ties_with_nobody():
    never = (math.inf, math.inf, math.inf)
    (cells,) = matrix(table({"hard": [never, never, never]}, {}))["cells"]
    assert [(cell["mark"], cell["times"]) for cell in cells] == [("", None)] * 3


def test_one_column_is_no_matrix():
    whole = table(SURE, {})
    assert matrix(Table("Cost", "cost", whole.rows[:1], whole.sentences, "", whole.frame[:1])) is None


class Cells(HTMLParser):
    """The classes of the cells of a table, row by row, and its text."""

    def __init__(self, text: str):
        super().__init__()
        self.rows: list[list[str]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag == "td" and dict(attrs).get("class"):
            self.rows[-1].append(dict(attrs)["class"])

    def handle_data(self, data):
        self.text.append(data.strip())


def test_colours_are_steps_of_the_ratio():
    between = [1.0, *((low + high) / 2 for low, high in zip(LEVELS, (*LEVELS[1:], 99), strict=True))]
    for step, times in enumerate(between):
        costs = {"made": [(1.0, 1.0, 1.0), (times, times, times), (math.inf, math.inf, math.inf)]}
        page = Cells(matrix_html(matrix(table(costs, {"made": NAMES[0]}))))
        assert page.rows[1] == ["r0 wins", f"r{step}", f"r{len(LEVELS) + 1}"]


@pytest.mark.parametrize("least", [0.0, -4.0])
def test_where_the_cheapest_is_not_above_0_others_have_no_ratio_and_no_colour(least):
    costs = {"made": [(cost, cost, cost) for cost in (least, 2.0, math.inf)]}
    content = matrix(table(costs, {"made": NAMES[0]}))
    assert [cell["times"] for cell in content["cells"][0]] == [1, None, None]
    assert Cells(matrix_html(content)).rows[1] == ["r0 wins", f"r{len(LEVELS) + 1}"]


def test_names_are_text_and_the_longer_side_goes_down():
    few = Cells(matrix_html(matrix(table(SURE | OPEN, {}))))
    assert NAMES[0] in few.text and len(few.rows) == 3
    assert [text for text in few.text if text.startswith("About")] == ["About sure.", "About open."]
    many = table(SURE, {})
    rows = tuple(Row("sure", f"method {k}", "", "1", "–", "1 – 1", "5/5") for k in range(9))
    frame = pl.DataFrame([{"cost": 1.0, "interval_low": 1.0, "interval_high": 1.0}] * 9)
    tall = Cells(matrix_html(matrix(Table("Cost", "cost", rows, many.sentences, "", frame))))
    assert len(tall.rows) == 10 and all(len(row) == 1 for row in tall.rows[1:])


def test_a_forest_has_logarithmic_places_and_counts_what_holds():
    def verdict(problem: str, value: float):
        return judged("a costs at most 0.5 times as much as b", problem, Ratio(value, Interval(value / 2, value * 2), 9), 0.5)

    claims = [claim(verdict(problem, value)) for problem, value in (("p", 0.125), ("q", 0.5), ("r", 2.0))]
    assert [one["answer"] for one in claims] == ["holds", "is not decided", "does not hold"]
    drawn = forest_html(claims)
    first, second, third = (float(place) for place in re.findall(r'cx="([\d.]+)%"', drawn))
    assert 0 < first < third < 100 and second - first == pytest.approx(third - second, abs=0.02)
    ends = [(float(low), float(high)) for low, high in re.findall(r'class="whisker \w+" x1="([\d.]+)%" x2="([\d.]+)%"', drawn)]
    assert [(low + high) / 2 for low, high in ends] == pytest.approx([first, second, third], abs=0.02)
    assert "holds on 1 of 3 problems" in drawn


def test_a_ratio_that_is_not_known_has_no_place():
    unknown = judged("a costs no more than b", "p", Ratio(math.nan, Interval(0.0, math.inf), 9), 1.0)
    only = claim(unknown)
    assert (only["ratio"], only["high"]) == (None, None) and "<circle" not in forest_html([only])
