"""A budget: how much of a price the runs of a study may spend, and which runs that left out."""

import math
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from turnout.accounting.prices import Price
from turnout.core.errors import UserError, unknown
from turnout.studies.declaration import Declaration
from turnout.studies.plan import Program, Run, name_of
from turnout.studies.result_types import BudgetFacts


@dataclass
class Budget:
    """A budget, and what is spent of it: the price of each run at its last row. A run that broke counts nothing.

    Args:
        name: The name of the price.
        price: The price.
        most: Where it is reached, no further run starts.
        spent: The price of the runs so far, those from before too.
        not_played: The runs that did not start.
    """

    name: str
    price: Price
    most: float
    spent: float = 0.0
    not_played: tuple[Run, ...] = ()

    @classmethod
    def of(cls, given: tuple[str, float], declaration: Declaration) -> "Budget":
        """Return the budget that the name of a price and a number give; `UserError` if these are not valid."""
        name, most = given
        if name not in declaration.prices:
            raise unknown("price", name, declaration.prices)
        if not (isinstance(most, int | float) and 0 < most < math.inf):
            raise UserError(f"the budget of {name} is a number above 0, but it is {most!r}: give {name}=1000, for instance")
        return cls(name, declaration.prices[name], most)

    @property
    def over(self) -> bool:
        """Whether no further run may start."""
        return self.spent >= self.most

    def count(self, rows: pl.DataFrame) -> None:
        """Add the price of runs, which the column "run" names."""
        if not rows.is_empty():
            ends = rows.group_by("run", maintain_order=True).last()
            self.spent += float(np.asarray(self.price.cost(ends), float).sum())

    def facts(self) -> BudgetFacts:
        """Return what a summary says."""
        names = [name_of(run) for run in self.not_played]
        return {"price": self.name, "most": self.most, "spent": self.spent, "not_played": names}

    def __str__(self) -> str:
        left = f"{len(self.not_played):,} runs were not played" if self.not_played else "all runs were played"
        tuning = any(run.purpose == "tune" for run in self.not_played)
        return f"{self.spent:,.6g} of {self.most:,.6g} {self.name}: {left}{', so that none are reported' if tuning else ''}"


def one_by_one(programs: list[Program]) -> list[Program]:
    """Return a program for each run, the first seed of all settings before the second, so that a budget ends all alike."""
    alone = [replace(program, runs=(run,)) for program in programs for run in program.runs]
    return sorted(alone, key=lambda program: (program.runs[0].place[3], program.runs[0].place))
