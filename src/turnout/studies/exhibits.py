"""Tables and charts that a study makes itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from turnout.report.format import number
from turnout.studies.tables import latex_table, markdown_table


@dataclass(frozen=True)
class Exhibit:
    """What a study shows beside its declared tables and figures.

    Args:
        name: Its name, such as "table-3", which is also that of its files.
        title: Its title.
        caption: What is to be seen.
    """

    name: str
    title: str
    caption: str


@dataclass(frozen=True)
class OwnTable(Exhibit):
    """A table that a study makes itself.

    Args:
        frame: Its columns.
    """

    frame: pl.DataFrame

    @property
    def rows(self) -> list[list[str]]:
        """The cells as text."""
        return [[number(cell) if isinstance(cell, float) else str(cell) for cell in row] for row in self.frame.rows()]

    @property
    def text(self) -> list[bool]:
        """Whether each column is text."""
        return [kind == pl.String for kind in self.frame.dtypes]

    def markdown(self) -> str:
        """Return the table in Markdown."""
        return f"**{self.title}**\n\n{markdown_table(self.frame.columns, self.rows)}\n{self.caption}\n"

    def latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs."""
        return latex_table(self.frame.columns, self.rows)

    def csv(self) -> str:
        """Return the columns as CSV."""
        return self.frame.write_csv()


@dataclass(frozen=True)
class OwnChart(Exhibit):
    """A chart that a study makes itself.

    Args:
        chart: Its Vega-Lite specification, with the data.
    """

    chart: dict[str, Any]


Exhibits = Callable[[Any], list[Exhibit]]
"""Takes a study that was played, and returns its own tables and charts."""
