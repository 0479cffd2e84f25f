"""What is best at other prices: the lower envelope of the candidates' costs when one event becomes dearer."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.stats import trim_mean

from turnout.accounting.prices import Columns, Price
from turnout.planner.candidates import Contender
from turnout.planner.race import SEEDS

RATES = np.logspace(-2, 2, 41)
"""Prices of the event, in multiples of the one at which it costs the winner as much as all else."""

ANCHORS = (0.1, 1.0, 10.0, 100.0)
"""Those of them at which a race is held."""

RACE = (0, *SEEDS)
"""The seeds of a race."""

FURTHER = tuple(range(5, 16))
"""Seeds that the cheapest candidates play besides: of many candidates over a few seeds, luck chooses."""

NEAR, MOST = 1.3, 3
"""At each rate so many candidates play these, which cost at most so many times as much as the cheapest one."""


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


def costs_of(one: Contender, price: Price, seeds: Iterable[int]) -> np.ndarray:
    """Return the costs of a candidate's runs as far as they were played [seeds], infinite for those not at the target."""
    trials = [one.trial(seed) for seed in seeds]
    return np.array([trial.spent(price) if trial.met else math.inf for trial in trials])


def ranked(contenders: Iterable[Contender], price: Price, seeds: Sequence[int]) -> list[tuple[float, Contender]]:
    """Return candidates with the interquartile means of their costs, cheapest first.

    Where a target takes a few exchanges, costs are small multiples of one number, and their median is one of two by luck.

    Args:
        contenders: The candidates.
        price: The price.
        seeds: The seeds over which the mean is taken.
    """
    known = [(float(trim_mean(costs_of(one, price, seeds), 0.25)), one) for one in contenders]
    return sorted(known, key=lambda pair: pair[0])


def near(contenders: Iterable[Contender], prices: Sequence[Price]) -> list[Contender]:
    """Return the candidates that are among the cheapest at some price, by the seeds of the race.

    Args:
        contenders: The candidates that were played on all seeds of the race.
        prices: The prices.
    """
    known, kept = list(contenders), {}
    for price in prices:
        first, *others = ranked(known, price, RACE)[:MOST]
        kept |= dict.fromkeys([first[1], *(one for cost, one in others if cost <= NEAR * first[0])])
    return list(kept)


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
