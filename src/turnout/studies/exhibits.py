"""Tables and charts that a study makes itself."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from turnout.report.format import number
from turnout.studies.tables import latex_table, markdown_table


@dataclass(frozen=True)
class OwnTable:
    """A table that a study makes itself.

    Args:
        name: Its name, such as "table-3", which is also that of its files.
        title: Its title.
        caption: What is to be seen.
        frame: Its columns.
    """

    name: str
    title: str
    caption: str
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
class OwnChart:
    """A chart that a study makes itself.

    Args:
        name: Its name, such as "figure-5", which is also that of its files.
        title: Its title.
        caption: What is to be seen.
        chart: Its Vega-Lite specification, with the data.
    """

    name: str
    title: str
    caption: str
    chart: dict[str, Any]


Exhibits = Callable[[Any, Path | None], list[OwnTable | OwnChart]]
"""Takes a study that was played and the folder with data files, and returns the study's own tables and charts."""
