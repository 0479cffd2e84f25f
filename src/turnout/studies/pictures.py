"""The figures of a study, and those of which pictures are made."""

from dataclasses import dataclass
from functools import cached_property

from turnout.engines.metrics import NAMES
from turnout.report.lines import Drawing, Style, styles
from turnout.studies.curves import drawings
from turnout.studies.figures import Figure, default_figures
from turnout.studies.results import Results

LEVEL_WORDS = " Level dashed lines are methods that do not sweep the key."


@dataclass(frozen=True)
class Drawn:
    """A figure and its charts.

    Args:
        figure: The figure.
        drawings: Its charts.
        price: The name of the price that it belongs to; "" where it belongs to all.
    """

    figure: Figure
    drawings: list[Drawing]
    price: str = ""

    @cached_property
    def styles(self) -> dict[str, Style]:
        """The style of each line, by its label."""
        return styles(self.drawings)

    @property
    def explanation(self) -> str:
        """What lines and bands are."""
        level = any(line.level for drawing in self.drawings for line in drawing.lines)
        return f"Medians over the seeds, with bands between the quartiles.{LEVEL_WORDS if level else ''}"

    @property
    def key(self) -> str:
        """Its name on the page."""
        return f"{self.figure.name}{self.price and f'-{self.price}'}"


def figures_of(study: Results) -> list[Drawn]:
    """Return the declared figures of a study; without these the default ones, for each price."""
    declared = study.declaration
    if declared.figures:
        return [Drawn(figure, drawings(study, figure)) for figure in declared.figures]
    metrics = [name for name in NAMES if name in study.runs.columns]
    return [
        Drawn(figure, drawings(study, figure), price)
        for price in declared.prices
        for figure in default_figures(declared, metrics, price)
    ]


def pictured(figures: list[Drawn]) -> list[Drawn]:
    """Return the figures of which pictures are written: those with charts, of the default ones those for the first price."""
    return [drawn for drawn in figures if drawn.drawings and drawn.price == figures[0].price]
