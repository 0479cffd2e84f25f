"""The price of the paper's tables, which counts a solver's iterations."""

from typing import ClassVar

from turnout.core.records import NonNegative, config


@config
class Iterations:
    """(c1 K + c2) T, where K counts the iterations of the cohort solver: exchanges that a line search rejected are free.

    Args:
        c1: Cost of one iteration, >= 0.
        c2: Cost of one new cohort, >= 0.
    """

    unit: ClassVar[str] = "c1 per iteration + c2 per cohort"
    c1: NonNegative = 1.0
    c2: NonNegative = 0.0

    @property
    def label(self) -> str:
        return f"iterations(c1={self.c1:g}, c2={self.c2:g})"

    def cost(self, events):
        return self.c1 * events["iterations"] + self.c2 * events["cohorts"]
