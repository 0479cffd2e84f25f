"""The page of claims: what each paper says in numbers, what was measured here, and whether it holds.

`claims/PAPER.toml` has the claims, with the numbers that papers print. Measured numbers are read from `results/` or a page.
What is proved has a test:

    where, says, printed, verdict       of each [[claim]], with `why` unless it holds
    at_least, at_most                   what a measured number has to be; an entry of `measured` may have its own
    command                             what would test a claim that is not tested
    measured                            a list of
        result, table, of, over         the least `column` ("cost") of the rows with the values `of`, divided by that of `over`,
                                        which may be in `over_table`
        result, claim                   an entry of `claims` in summary.json
        result, finding                 a regular expression with (?P<value>), perhaps (?P<over>) and (?P<on>)
        page, finding, command          the same in a page of docs/
        test, shows                     a test that proves the claim or, with shows = false, that it fails
    `on` says what a number is of; `problem` has the names of several problems; `saved` makes a ratio a percentage saved.
"""

import csv
import json
import math
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from turnout.report.format import number

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "claims"
MARK = "<!-- claims -->"
PAPERS = ("cohort-squeeze", "k-vib", "feddcd", "cost-aware")

HOLDS, PARTLY, FAILS, UNTESTED = VERDICTS = ("holds", "holds under a condition", "does not hold", "not tested")
MARKS = {True: "✓", False: "✗", None: "?"}


class Number(NamedTuple):
    """A measured number, with its 95 % interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None


class Line(NamedTuple):
    """What one measurement says about a claim: met, not met, or None where its interval includes the bound."""

    text: str
    met: bool | None
    command: str


@cache
def papers() -> dict[str, dict]:
    """Return the declared claims of all papers."""
    return {name: tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8")) for name in PAPERS}


@cache
def summary(result: str) -> dict:
    """Return what a published study found."""
    return json.loads((ROOT / "results" / result / "summary.json").read_text(encoding="utf-8"))


@cache
def rows(result: str, table: str) -> list[dict]:
    """Return the rows of a table of a published study."""
    with (ROOT / "results" / result / "tables" / f"{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def prose(page: str) -> str:
    """Return a page on one line."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def lines(claim: dict) -> list[Line]:
    """Return the lines of all measurements of a claim."""
    found = []
    for entry in claim.get("measured", []):
        problems = entry.get("problem", {"": ""})
        for name, title in problems.items() if isinstance(problems, dict) else zip(problems, problems, strict=True):
            found += _lines(claim, entry, {"problem": name} if name else {}, title)
    return found


def verdict(found: list[Line]) -> str | None:
    """Return the verdict that measurements allow; None where no interval decides."""
    met = {line.met for line in found}
    if not met:
        return UNTESTED
    if True in met:
        return HOLDS if met == {True} else PARTLY
    return FAILS if False in met else None


def _lines(claim: dict, entry: dict, problem: dict, title: str) -> Iterator[Line]:
    """Yield the lines of one measurement on one problem."""
    name, bounds = _joined(title, entry.get("on")), claim | entry
    if "test" in entry:
        path, _, test = entry["test"].partition("::")
        proved = entry.get("shows", True)
        yield Line(f"{MARKS[proved]} {name} ([test](../{path}))", proved, f'python -m pytest -m "" {path}::{test}')
    elif "claim" in entry:
        facts = summary(entry["result"])["claims"][entry["claim"]]
        measured = Number(facts["ratio"], facts["low"], facts["high"])
        yield _line(name, measured, "", {"at_most": facts["at_most"]}, _command(entry))
    elif "finding" in entry:
        for match in matches(entry):
            value, over, on = (match.groupdict().get(group) for group in ("value", "over", "on"))
            sides = f"{value} {entry.get('between', 'to')} {over}" if over else ""
            measured = Number(_number(value).value / (_number(over).value if over else 1))
            yield _line(_joined(on, name), measured, sides, bounds, _command(entry))
    else:
        yield _line(name, *compared(entry, problem), bounds, _command(entry))


def _joined(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _command(entry: dict) -> str:
    return entry["command"] if "page" in entry else summary(entry["result"])["command"]


def matches(entry: dict) -> list[re.Match]:
    """Return all places of a page or of a study's findings where a regular expression matches."""
    texts = [prose(entry["page"])] if "page" in entry else summary(entry["result"])["findings"]
    found = [match for text in texts for match in re.finditer(entry["finding"], text)]
    if not found:
        raise ValueError(f"nothing in {entry.get('page') or entry['result']} matches {entry['finding']!r}")
    return found


def compared(entry: dict, problem: dict) -> tuple[Number, str]:
    """Return a number of a table or a ratio of two, and both sides of the ratio in words."""
    of = cell(entry, entry["table"], problem | entry["of"])
    if "over" not in entry:
        return of, ""
    over = cell(entry, entry.get("over_table", entry["table"]), problem | entry["over"])
    # Costs of the same runs at two prices depend on each other, so that the quotient of their intervals says nothing.
    return quotient(of, over, "over_table" not in entry), f"{_shown(of.value)} to {_shown(over.value)}"


def cell(entry: dict, table: str, where: dict) -> Number:
    """Return the least number in the rows with some values."""
    column = entry.get("column", "cost")
    chosen = [
        row
        for row in rows(entry["result"], table)
        if all(row[key] in (value if isinstance(value, list) else [value]) for key, value in where.items())
    ]
    if not chosen:
        raise ValueError(f"results/{entry['result']}/tables/{table}.csv has no row with {where}")
    found = [_number(row[column]) for row in chosen]
    if column == "cost" and "interval_low" in chosen[0]:
        found = [
            Number(one.value, float(row["interval_low"]), float(row["interval_high"]))
            for one, row in zip(found, chosen, strict=True)
        ]
    return min(found, key=lambda one: one.value)


def quotient(of: Number, over: Number, interval: bool) -> Number:
    """Return the ratio of two numbers, with the quotients of the ends of their intervals."""
    value = _divided(of.value, over.value)
    if not interval or of.low is None or over.low is None:
        return Number(value)
    return Number(value, _divided(of.low, over.high), _divided(of.high, over.low))


def met(measured: Number, bounds: dict) -> bool | None:
    """Return whether a number is within bounds; None where its interval includes one, or where nobody arrives."""
    low, high = bounds.get("at_least", -math.inf), bounds.get("at_most", math.inf)
    ends = [measured.value] if measured.low is None else [measured.low, measured.high]
    if any(math.isnan(end) for end in ends):
        return None
    if all(low <= end <= high for end in ends):
        return True
    return False if max(ends) < low or min(ends) > high else None


def _line(name: str, measured: Number, sides: str, bounds: dict, command: str) -> Line:
    if bounds.get("saved"):
        turned = [None if end is None else 100 * (1 - end) for end in (measured.value, measured.high, measured.low)]
        measured, unit = Number(*turned), " %"
    else:
        unit = ""
    outcome = met(measured, bounds)
    interval = "" if measured.low is None or math.isnan(measured.low) else f" [{_shown(measured.low)}, {_shown(measured.high)}]"
    shown = f"{_shown(measured.value)}{unit}{interval}{f' ({sides})' if sides else ''}"
    return Line(f"{MARKS[outcome]} {name}: {shown}", outcome, command)


def _number(text: str) -> Number:
    """Read a number as tables have it: "1,482", "112 (82 – 291)", "0.165 ± 0.094", "3/16", "never"."""
    head, _, rest = text.replace(",", "").replace("never", "inf").partition(" ")
    above, _, below = head.partition("/")
    value = float(above) / float(below or 1)
    if rest.startswith("("):
        low, high = (float(end) for end in rest.strip("()").split(" – "))
        return Number(value, low, high)
    if rest.startswith("±"):
        error = 1.96 * float(rest[1:])
        return Number(value, max(value - error, 0.0), value + error)
    return Number(value)


def _divided(above: float, below: float) -> float:
    if math.isinf(above) and math.isinf(below) or above == below == 0:
        return math.nan
    return math.inf if below == 0 else above / below


def _shown(value: float) -> str:
    if not math.isfinite(value):
        return "not known" if math.isnan(value) else "never"
    return (number(value) if abs(value) >= 1000 else f"{value:.3g}").replace("-", "−")


def inserted(text: str) -> str:
    """Return a page with the tables of all papers in the place of the mark."""
    return text.replace(MARK, "\n\n".join(part for name in PAPERS for part in section(name))) if MARK in text else text


def framed(content: str) -> str:
    """Return the HTML of the page with its tables in a frame of their own, for the style sheet."""
    return content.replace("<table>", '<div class="claims"><table>').replace("</table>", "</table></div>")


def section(name: str) -> list[str]:
    """Return the heading, the table and the commands of a paper."""
    paper, commands = papers()[name], {}
    table = [
        "| section | what the paper says | printed | measured here | verdict | repeat |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    counts = dict.fromkeys(VERDICTS, 0)
    for claim in paper["claim"]:
        counts[claim["verdict"]] += 1
        found = lines(claim)
        used = [line.command for line in found] + [claim[key] for key in ("command",) if key in claim]
        for command in used:
            commands.setdefault(command, len(commands) + 1)
        numbers = ", ".join(str(commands[command]) for command in dict.fromkeys(used))
        said = f"**{claim['verdict']}**" + (f"<br>{claim['why']}" if "why" in claim else "")
        told = "<br>".join(line.text for line in found) or "–"
        cells = (claim["where"], claim["says"], claim["printed"], told, said, numbers or "–")
        table.append(f"| {' | '.join(_cell(text) for text in cells)} |")
    total = ", ".join(
        f"{count} {verdict.replace('does', 'do').replace('holds', 'hold')}" for verdict, count in counts.items() if count
    )
    listed = "\n".join(f"{k}. `{command}`" for command, k in commands.items())
    return [
        f"## {paper['title']}",
        f"{paper['about']} Of {len(paper['claim'])} claims, {total}.",
        "\n".join(table),
        "To repeat:",
        listed,
    ]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
