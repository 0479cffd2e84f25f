"""The answer of a study at a glance: matrices of costs and forests of claims, as data for a summary and as HTML.

The HTML needs no script and brings its own style, so that reports, notebooks and the site show the same.
"""

import math
from itertools import groupby
from typing import Any

from turnout.report.downsample import log_ticks
from turnout.report.format import number
from turnout.report.html import TEMPLATES
from turnout.studies.claims import Verdict
from turnout.studies.result_types import ClaimFacts
from turnout.studies.tables import Row, Table

LEVELS = (1, 1.25, 2, 4, 10)
"""The ratios to the cheapest cost at which the colour of a cell changes."""


Matrices = dict[tuple[str, str], dict[str, Any]]
"""Matrices by the names of their goal and price."""


def matrix(table: Table) -> dict[str, Any] | None:
    """Return the costs of a table as a matrix problems x methods, or problems x settings of a single method.

    Each cell has its cost, whether it is finite, its ratio to the cheapest cost on its problem (None where it is infinite, or the
    cheapest cost is not above 0), its 95 % interval and a mark: "wins" where it is the cheapest beyond doubt; without a winner
    "ties" where its interval meets that of the cheapest. None where there is nothing to compare.

    Args:
        table: The table.
    """
    several = len({row.method for row in table.rows}) > 1
    problems = list(dict.fromkeys(row.problem for row in table.rows))
    methods = list(dict.fromkeys(row.method if several else row.setting for row in table.rows))
    if len(methods) < 2:
        return None
    cells: dict[str, list] = {problem: [None] * len(methods) for problem in problems}
    facts = zip(table.rows, table.frame.iter_rows(named=True), strict=True)
    for problem, group in groupby(facts, key=lambda pair: pair[0].problem):
        rows = list(group)
        least, certain = min((each for _, each in rows), key=lambda each: each["cost"]), any(row.wins for row, _ in rows)
        for row, each in rows:
            place = methods.index(row.method if several else row.setting)
            cells[problem][place] = _cell(row, each, least, certain)
    return {
        "title": table.title,
        "problems": problems,
        "methods": methods,
        "sentences": table.sentences,
        "cells": [cells[problem] for problem in problems],
    }


def _cell(row: Row, facts: dict, least: dict, certain: bool) -> dict[str, Any]:
    """Return the cell of a row with these `facts`, where `least` are those of the cheapest one, which may be `certain`."""
    finite = math.isfinite(facts["cost"])
    meets = facts["interval_low"] <= least["interval_high"] and finite
    return {
        "cost": row.cost,
        "finite": finite,
        "times": _ratio(facts["cost"], least["cost"]),
        "interval": row.interval,
        "setting": row.setting,
        "reached": row.reached,
        "mark": "wins" if row.wins else "ties" if meets and not certain else "",
    }


def _ratio(cost: float, least: float) -> float | None:
    """Return cost / least; None where it is infinite, or `least` is not above 0."""
    if not math.isfinite(cost):
        return None
    return 1.0 if cost == least else cost / least if least > 0 else None


def claim(verdict: Verdict) -> ClaimFacts:
    """Return a verdict as data; bounds that are infinite or unknown are None."""
    ratio, (low, high) = verdict.ratio.value, verdict.ratio.interval
    return {
        "sentence": str(verdict),
        "claim": verdict.claim,
        "problem": verdict.problem,
        "answer": verdict.answer,
        "at_most": verdict.at_most,
        "ratio": _finite(ratio),
        "low": _finite(low) if verdict.ratio.decided else None,
        "high": _finite(high) if verdict.ratio.decided else None,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def matrix_html(content: dict[str, Any]) -> str:
    """Return a matrix as HTML: the longer side goes down the page, and a problem opens the sentence about it.

    Args:
        content: What `matrix` returns.
    """
    return TEMPLATES.get_template("matrix.html").render(
        **content,
        colour=_colour,
        number=number,
        levels=LEVELS,
        turned=len(content["methods"]) > max(len(content["problems"]), 6),
    )


def _colour(cell: dict[str, Any]) -> str:
    """Return the class of a cell by its ratio to the cheapest cost; the last one for an infinite cost, none without a ratio."""
    if cell["times"] is not None:
        return f"r{sum(cell['times'] > level * (1 + 1e-9) for level in LEVELS)}"
    # Published matrices may be older than the key.
    return "" if cell.get("finite") else f"r{len(LEVELS) + 1}"


def forest_html(claims: list[ClaimFacts]) -> str:
    """Return claims as a forest plot: ratios with intervals on one logarithmic axis, claims of one form together.

    Args:
        claims: What `claim` returns for each.
    """
    known = [each[key] for each in claims for key in ("ratio", "low", "high", "at_most") if each[key]]
    low, high = math.log(min([*known, 1]) / 1.15), math.log(max([*known, 1]) * 1.15)

    def place(value: float | None, absent: float) -> float:
        """Return where a value is on the axis, in percent; `absent` where it has no place."""
        return round(100 * (math.log(value) - low) / (high - low), 2) if value else absent

    ticks = [tick for tick in log_ticks([math.exp(low), math.exp(high)]) or [1] if math.exp(low) <= tick <= math.exp(high)]
    groups = [(words, list(group)) for words, group in groupby(claims, key=lambda each: each["claim"])]
    return TEMPLATES.get_template("forest.html").render(groups=groups, place=place, ticks=ticks, number=number)


def style() -> str:
    """Return the style of matrices and forests as an element."""
    return f"<style>\n{TEMPLATES.get_template('overview.css').render()}</style>"
