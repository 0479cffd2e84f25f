"""The page of published numbers: SCAFFOLD beside FedAvg in published tables and here, and what explains the differences.

`published_numbers.toml` has the published accuracies, where they were read, and the faults that were read in released programs.
Ours are read from `results/niid-bench`. Accuracies depend on rows, rounds and networks, so SCAFFOLD minus FedAvg is compared,
in points. It has the rounds that the FedAvg paper prints too, beside ours of `results/fedavg` and `results/fedavg-shards`.
"""

import math
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import claims

FILE = Path(__file__).with_suffix(".toml")
MARKS = ("<!-- published cells -->", "<!-- published switches -->", "<!-- published rounds -->")
ROUNDS, ONE = "97-test-accuracy-rounds", "one"
RESULT, TABLE, RIVAL, RIGHT = "niid-bench", "last-accuracy-exchanges", "fedavg", "scaffold"

HOLDS, EXPLAINED, PARTLY, OPEN, UNDECIDED, UNTESTED = (
    "holds", "explained", "partly explained", "not explained", "not decided", "not played",
)  # fmt: skip
SIGNS = {True: "✓", False: "✗", None: "?"}


@cache
def declared() -> dict:
    """Return what `published_numbers.toml` declares."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def played() -> dict[tuple[str, str], dict]:
    """Return the rows of the published table by problem and method."""
    return {(row["problem"], row["method"]): row for row in claims.rows(RESULT, TABLE)}


class Percent(NamedTuple):
    """A median over the seeds, in percent or in points, with its interval; minus infinity where numbers became infinite."""

    value: float
    low: float
    high: float


def accuracy(problem: str, method: str) -> Percent:
    """Return the last accuracy."""
    row = played()[problem, method]
    return Percent(*(100 * (1 - float(row[column])) for column in ("cost", "interval_high", "interval_low")))


def difference(problem: str, method: str) -> Percent:
    """Return the accuracy of a method minus that of FedAvg, with the differences of the ends of their intervals."""
    mine, rival = accuracy(problem, method), accuracy(problem, RIVAL)
    return Percent(mine.value - rival.value, mine.low - rival.high, mine.high - rival.low)


def agrees(cell: dict, method: str) -> list[bool | None]:
    """Return for each problem of a cell whether the difference is within its bounds; None where the interval includes one."""
    return [claims.met(claims.Number(*difference(problem, method)), cell) for problem in cell["problems"]]


def verdict(cell: dict) -> str:
    """Return the verdict that our numbers allow: undecided where the cell holds on some problems, and not certainly on others."""
    if "problems" not in cell:
        return UNTESTED
    right = {*agrees(cell, RIGHT)}
    if right != {False}:
        return HOLDS if right == {True} else UNDECIDED
    tried = [agrees(cell, method) for method in cell.get("switches", [])]
    return EXPLAINED if any(map(all, tried)) else PARTLY if any(map(any, tried)) else OPEN


def inserted(text: str) -> str:
    """Return a page with the tables in the place of the marks."""
    for mark, table in zip(MARKS, (cells, switches, rounds), strict=True):
        text = text.replace(mark, table()) if mark in text else text
    return text


def cells() -> str:
    """Return the table of published cells."""
    lines = ["| setting | source | FedAvg | SCAFFOLD | here, minus FedAvg | verdict |", "| --- | --- | --- | --- | --- | --- |"]
    for cell in declared()["cells"]:
        source, told = declared()["sources"][cell["source"]], []
        for problem in cell.get("problems", []):
            told += [_told(cell, problem, method) for method in (RIGHT, *cell.get("switches", []))]
        link = f"[{source['name']}]({source['link']}#{'-'.join(f'L{line}' for line in cell['lines'].split('-'))})"
        shown = "<br>".join(told) or "–"
        lines.append(f"| {cell['setting']} | {link} | {cell['fedavg']} | {cell['scaffold']} | {shown} | **{cell['verdict']}** |")
    return "\n".join(lines)


def _told(cell: dict, problem: str, method: str) -> str:
    network = "LeNet-5" if "LeNet-5" in title(problem) else "perceptron"
    name = "SCAFFOLD" if method == RIGHT else f"switch *{method}*"
    found = difference(problem, method)
    return f"{SIGNS[claims.met(claims.Number(*found), cell)]} {name}, {network}: {_points(found)}"


def switches() -> str:
    """Return the table of faults, with what each does on every problem where it was played."""
    lines = ["| switch | fault | read in | here, minus FedAvg |", "| --- | --- | --- | --- |"]
    for switch in declared()["switches"]:
        where = [problem for problem, method in played() if method == switch["method"]]
        told = "<br>".join(f"{title(problem)}: {_points(difference(problem, switch['method']))}" for problem in where)
        fault = switch["fault"].replace("|", "\\|")
        lines.append(f"| *{switch['method']}* | {fault} | {switch['read']} | {told} |")
    return "\n".join(lines)


def rounds() -> str:
    """Return the table of the rounds of FedAvg, with how many times fewer they are than with one client a round."""
    lines = ["| problem | C | printed | here | verdict |", "| --- | --- | --- | --- | --- |"]
    for entry in declared()["rounds"]:
        problem, printed = title(entry["problem"], study="fedavg"), entry["printed"]
        ours = {row["method"]: row for row in claims.rows(entry["result"], ROUNDS) if row["problem"] == entry["problem"]}
        costs = {method: float(row["cost"]) for method, row in ours.items()}
        for method in printed:
            share, row, told = title(method, "methods", "fedavg").removeprefix("C = "), ours.get(method), "–"
            if row:
                low, high = (f"{float(row[end]):,g}".replace("inf", "never") for end in ("low", "high"))
                told = _fewer(costs, method, f" ({low} – {high})")
            held = rounds_verdict(printed[method], row)
            lines.append(f"| {problem} | {share} | {_fewer(printed, method)} | {told} | **{held}** |")
    return "\n".join(lines)


def rounds_verdict(printed: float, row: dict | None) -> str:
    """Return whether a printed number of rounds lies in the range of ours."""
    if row is None:
        return UNTESTED
    low, high = float(row["low"]), float(row["high"])
    return HOLDS if low <= printed <= high else f"{OPEN}: {'fewer' if high < printed else 'more'}"


def _fewer(costs: dict[str, float], method: str, spread: str = "") -> str:
    cost, most = costs[method], costs.get(ONE, math.inf)
    times = f", {most / cost:.1f} ×" if method != ONE and most < math.inf and cost < math.inf else ""
    return f"{cost:,g}".replace("inf", "never") + spread + times


@cache
def title(name: str, part: str = "problems", study: str = RESULT) -> str:
    """Return the title of a problem or of a method of a study."""
    path = claims.ROOT / "src" / "turnout" / "papers" / study / f"{part}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))[part][name]["title"]


def _points(found: Percent) -> str:
    value, low, high = (re.sub(r"^-", "−", f"{end:.1f}").replace("inf", "∞") for end in found)
    return value if low == high else f"{value} [{low}, {high}]"
