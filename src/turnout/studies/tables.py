"""Tables of a study as Markdown, CSV and LaTeX."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import polars as pl

from turnout.accounting.prices import Price
from turnout.accounting.target import is_accuracy, smaller_better
from turnout.report.format import amount, number
from turnout.studies.goals import Goal
from turnout.studies.statistics import FEWEST


@dataclass(frozen=True)
class Row:
    """A method on a problem, as it is shown; `wins` where it is cheapest beyond doubt."""

    problem: str
    method: str
    setting: str
    cost: str
    quartiles: str
    interval: str
    reached: str
    wins: bool = False

    def cells(self, bold: Callable[[str], str], write: Callable[[str], str] = str) -> list[str]:
        """Return the cells in the order of the headings, each in the form of `write`, and the cost of a winner `bold`."""
        names = self.problem, self.method, self.setting, self.cost, self.quartiles, self.interval, self.reached
        cells = [write(cell) for cell in names]
        cells[3] = bold(cells[3]) if self.wins else cells[3]
        return cells


@dataclass(frozen=True)
class Table:
    """The cost of each method on each problem, at its chosen setting.

    Args:
        title: What was to be reached, and at which price.
        measured: What is compared: "cost", or the metric of a goal without a level.
        rows: The rows as they are shown.
        sentences: Who wins on each problem, by its title.
        choice: On which seeds settings were chosen.
        frame: The numbers.
    """

    title: str
    measured: str
    rows: tuple[Row, ...]
    sentences: dict[str, str]
    choice: str
    frame: pl.DataFrame

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known about the numbers."""
        return *self.sentences.values(), self.choice

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings of the columns."""
        return "problem", "method", "setting", self.measured, "quartiles", "95 % interval", "reached"

    def markdown(self) -> str:
        """Return the table in Markdown."""
        table = markdown_table(self.headings, [row.cells(lambda cost: f"**{cost}**") for row in self.rows])
        return "\n".join([f"**{self.title}**", "", table, *(f"* {note}" for note in self.notes), ""])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from turnout.report.notebook import shown

        title, *notes = (f"<p>{escape(text)}</p>" for text in (self.title, *self.notes))
        return "".join([title, shown(self.headings, [row.cells(str) for row in self.rows], None), *notes])

    def latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs."""
        lines = [f"% {note}" for note in (self.title, *self.notes)]
        lines += [r"\begin{tabular}{lllrrrr}", r"\toprule", _latex_row(map(_latex, self.headings)), r"\midrule"]
        for k, row in enumerate(self.rows):
            if k and row.problem != self.rows[k - 1].problem:
                lines.append(r"\addlinespace")
            lines.append(_latex_row(row.cells(lambda cost: rf"\textbf{{{cost}}}", _latex)))
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])

    def csv(self) -> str:
        """Return the numbers as CSV."""
        return self.frame.write_csv()


Tables = dict[tuple[str, str], Table]
"""Tables by the names of their goal and price."""


def row_of(facts: dict, goal: Goal, price: Price, titles: tuple[str, str], wins: bool) -> Row:
    """Return the row of a setting's `facts`.

    Args:
        facts: A row of `costs`.
        goal: What was to be reached.
        price: The price of its costs.
        titles: What its problem and its method are called.
        wins: Whether it is cheapest beyond doubt.
    """
    # Accuracies are compared by their error rates, whose order is the other way round.
    turned = not goal.levelled and is_accuracy(goal.metric)

    def between(*names: str) -> str:
        return " – ".join(shown(goal, price, facts[name]) for name in (reversed(names) if turned else names))

    interval = between("interval_low", "interval_high") if facts["seeds"] >= FEWEST else "–"
    cost, reached = shown(goal, price, facts["cost"]), f"{facts['reached']}/{facts['seeds']}"
    return Row(*titles, facts["setting"], cost, between("low", "high"), interval, reached, wins)


def shown(goal: Goal, price: Price, cost: float) -> str:
    """Write a cost in its unit, or the best value of a goal without a level; "never" where it is infinite."""
    if not goal.levelled:
        return number(smaller_better(goal.metric, cost))
    return amount(price, cost) if math.isfinite(cost) else "never"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return cells as a table in Markdown."""
    return "".join(f"{_markdown_row(cells)}\n" for cells in (headings, ["---"] * len(headings), *rows))


def latex_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return cells as a table in LaTeX, for the package booktabs; the first column is text."""
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}", r"\toprule", _latex_row(map(_latex, headings)), r"\midrule"]
    return "\n".join([*lines, *(_latex_row(map(_latex, cells)) for cells in rows), r"\bottomrule", r"\end{tabular}", ""])


def _markdown_row(cells) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _latex_row(cells) -> str:
    return " & ".join(cells) + r" \\"


SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "≤": r"$\le$",
}  # fmt: skip
"""How LaTeX writes what has a meaning for it, or is no ASCII."""


def _latex(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)
