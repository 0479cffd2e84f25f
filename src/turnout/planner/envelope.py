"""What is best at other prices: the lower envelope of the candidates' costs when one event becomes dearer."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from turnout.accounting.prices import Columns, Price
from turnout.planner.candidates import Contender
from turnout.planner.race import SEEDS

RATES = np.logspace(-2, 2, 41)
"""Prices of the event, in multiples of the one at which it costs the winner as much as all else."""

ANCHORS = (0.1, 1.0, 10.0, 100.0)
"""Those of them at which a race is held."""


@dataclass(frozen=True)
class WithEvent:
    """A price and `rate` for each `event`.

    Args:
        price: The price.
        event: Name of an event of the ledger.
        rate: What it costs in addition, in the unit of the price.
    """

    price: Price
    event: str
    rate: float
    unit: ClassVar[str] = "the sum of what its events cost"

    @property
    def label(self) -> str:
        return f"{self.price.label} + {self.rate:.3g} {self.event.replace('_', ' ')}"

    def cost(self, events: Columns):
        return self.price.cost(events) + self.rate * np.asarray(events[self.event], float)


def ends_of(one: Contender) -> pl.DataFrame | None:
    """Return the last rows of a candidate's runs on the seeds of the race; None where one did not reach the target."""
    trials = [one.trial(seed) for seed in (0, *SEEDS)]
    return (
        pl.concat([trial.frame[-1:] for trial in trials], how="diagonal_relaxed") if all(trial.met for trial in trials) else None
    )


def cheapest(contenders: list[Contender], price: Price, event: str, rates: np.ndarray) -> list[tuple[float, float, Contender]]:
    """Return for each rate the least median cost over the seeds of the race, and whose it is.

    Args:
        contenders: The candidates that were played on all seeds of the race.
        price: The price without the event.
        event: The event.
        rates: Prices of an event [rates].
    """
    ends = [(one, rows) for one in contenders if (rows := ends_of(one)) is not None]
    best = []
    for rate in rates:
        costs = [float(np.median(np.asarray(WithEvent(price, event, float(rate)).cost(rows), float))) for _, rows in ends]
        k = int(np.argmin(costs))
        best.append((float(rate), costs[k], ends[k][0]))
    return best


def front(costs: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return which of the points (cost, count) no other point is below in both.

    Args:
        costs: Costs [points].
        counts: Counts [points].
    """
    order = np.lexsort((counts, costs))
    least = np.minimum.accumulate(counts[order])
    fresh = np.concatenate([[True], least[1:] < least[:-1]]) if order.size else np.zeros(0, bool)
    on = np.zeros(order.size, bool)
    on[order[fresh]] = True
    return on
