"""A plan: what to run, what it costs on fresh seeds, and why others lost."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from turnout.accounting.prices import Price
from turnout.experiment.experiment import Experiment

BEST = "best.toml"


@dataclass(frozen=True)
class Loser:
    """A family that is not in the final, and why."""

    family: str
    setting: str
    why: str


@dataclass(frozen=True)
class Spent:
    """What the planning took.

    Args:
        seconds: Time.
        runs: Runs that were begun.
        rounds: Rounds of all of them.
        queries: Oracle calls of all clients.
        cost: The simulated cost of all of them, at the price.
    """

    seconds: float
    runs: int
    rounds: int
    queries: int
    cost: float


@dataclass(frozen=True)
class Plan:
    """What reaches a target most cheaply.

    Args:
        name: The name of the task.
        target: The target in words.
        price: The price.
        ranking: A row for each finalist, cheapest first: its family, its setting, the median cost over fresh seeds with quartiles
            and a bootstrap interval, and the ratio of its median to that of the winner with an interval.
        losers: The other families.
        best: The configuration of the winner.
        elsewhere: The winner at each further price, by seeds of the race.
        against: The event whose price varies in `envelope`.
        envelope: The least cost, an interquartile mean over seeds, and whose it is: a row for each price of that event.
        points: The cost and the number of that event of every candidate that reached the target on the first seed, and whether
            no other has less of both.
        spent: What the planning took.
        note: What a reader has to know: a stand-in, numbers at an end of their grid; "" if nothing.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> plan = t.plan(problem, t.Target("gradient", 0.5), allow=["lbfgs"], seeds=5)
        >>> plan.target, plan.price.label
        ('gradient < 0.5', 'exchanges')
    """

    name: str
    target: str
    price: Price
    ranking: pl.DataFrame
    losers: tuple[Loser, ...]
    best: Experiment
    elsewhere: pl.DataFrame
    against: str
    envelope: pl.DataFrame
    points: pl.DataFrame
    spent: Spent
    note: str = ""

    @property
    def cost(self) -> float:
        """The median cost of the winner over the fresh seeds."""
        return float(self.ranking["cost"][0])

    def facts(self) -> dict[str, Any]:
        """Return the plan as a dictionary for JSON."""
        return {
            "name": self.name,
            "target": self.target,
            "price": self.price.label,
            "note": self.note,
            "ranking": self.ranking.to_dicts(),
            "losers": [vars(loser) for loser in self.losers],
            "elsewhere": self.elsewhere.to_dicts(),
            "against": self.against,
            "envelope": self.envelope.to_dicts(),
            "points": self.points.to_dicts(),
            "spent": vars(self.spent),
        }
