"""Tables of a study as Markdown, CSV and LaTeX."""

import math
from dataclasses import dataclass

import polars as pl

from turnout.accounting.prices import Price
from turnout.report.format import amount

HEADINGS = ("problem", "method", "setting", "cost", "quartiles", "95 % interval", "reached")


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

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells in the order of `HEADINGS`."""
        return self.problem, self.method, self.setting, self.cost, self.quartiles, self.interval, self.reached


@dataclass(frozen=True)
class Table:
    """The cost of each method on each problem, at its chosen setting.

    Args:
        title: What was to be reached, and at which price.
        rows: The rows as they are shown.
        notes: What is to be known about them: who wins, and on which seeds settings were chosen.
        frame: The numbers.
    """

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    frame: pl.DataFrame

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [f"**{self.title}**", "", _markdown_row(HEADINGS), _markdown_row(("---",) * len(HEADINGS))]
        for row in self.rows:
            lines.append(_markdown_row([f"**{cell}**" if row.wins and name == "cost" else cell for name, cell in _named(row)]))
        return "\n".join([*lines, "", *(f"* {note}" for note in self.notes), ""])

    def latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs."""
        lines = [r"\begin{tabular}{lllrrrr}", r"\toprule", _latex_row(HEADINGS), r"\midrule"]
        for k, row in enumerate(self.rows):
            if k and row.problem != self.rows[k - 1].problem:
                lines.append(r"\addlinespace")
            cells = [(name, _latex(cell)) for name, cell in _named(row)]
            lines.append(
                " & ".join(rf"\textbf{{{cell}}}" if row.wins and name == "cost" else cell for name, cell in cells) + r" \\"
            )
        notes = [f"% {note}" for note in (self.title, *self.notes)]
        return "\n".join([*notes, *lines, r"\bottomrule", r"\end{tabular}", ""])

    def csv(self) -> str:
        """Return the numbers as CSV."""
        return self.frame.write_csv()


def row_of(facts: dict, price: Price, titles: tuple[str, str], wins: bool) -> Row:
    """Return the row of a setting's `facts`.

    Args:
        facts: A row of `costs`.
        price: The price of its costs.
        titles: What its problem and its method are called.
        wins: Whether it is cheapest beyond doubt.
    """
    low, high, least, most = (shown(price, facts[name]) for name in ("low", "high", "interval_low", "interval_high"))
    cost = shown(price, facts["cost"])
    return Row(
        *titles, facts["setting"], cost, f"{low} – {high}", f"{least} – {most}", f"{facts['reached']}/{facts['seeds']}", wins
    )


def shown(price: Price, cost: float) -> str:
    """Write a cost in its unit; "never" where it is infinite."""
    return amount(price, cost) if math.isfinite(cost) else "never"


def _named(row: Row):
    return zip(HEADINGS, row.cells, strict=True)


def _markdown_row(cells) -> str:
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _latex_row(cells) -> str:
    return " & ".join(map(_latex, cells)) + r" \\"


SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "≤": r"$\le$",
}  # fmt: skip
"""How LaTeX writes what has a meaning for it, or is no ASCII."""


def _latex(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)
