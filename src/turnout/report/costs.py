"""What a run cost: up to its target if it was reached, and of the whole run otherwise."""

from dataclasses import dataclass

import numpy as np

from turnout.accounting.prices import Clock, Exchanges, Price
from turnout.accounting.stall import stalled
from turnout.accounting.target import Target
from turnout.core.errors import UserError
from turnout.report.format import METRICS, amount, human_bytes, number
from turnout.report.loaded_run import Result

EVENTS = {
    "exchanges": "exchanges",
    "iterations": "solver iterations",
    "cohorts": "fresh cohorts",
    "bytes_down": "bytes down",
    "bytes_up": "bytes up",
    "seconds": "seconds on the clock",
}
"""The events that are counted, and their headings."""


@dataclass(frozen=True)
class Costs:
    """The costs of a run.

    Args:
        label: The label of the run.
        target: Its target, if it has one.
        round: The round at which the target was reached.
        best: The smallest value of the target's metric (for an accuracy: of the error rate).
        costs: The cost under each price.
        events: The counts of `EVENTS` but those that are a price, and seconds where there is no clock.
        diverged: Whether the run diverged.
        stall: The target's metric in the last two quarters of a run that comes no nearer to it.
    """

    label: str
    target: Target | None
    round: int | None
    best: float | None
    costs: dict[Price, float]
    events: dict[str, float]
    diverged: bool = False
    stall: tuple[float, float] | None = None

    @property
    def reached(self) -> bool:
        """Whether the target was reached."""
        return self.round is not None

    @property
    def outcome(self) -> str:
        """The round at which the target was reached, or the best value."""
        if self.target is None:
            return "no target"
        if self.reached:
            return f"round {self.round:,}"
        best = "" if self.best is None else f" (best {self.best:.4g})"
        return f"{'diverged' if self.diverged else 'not reached'}{best}"

    @property
    def cells(self) -> dict[str, str]:
        """The costs and counts by their headings; "> 70" if 70 was spent without reaching the target."""
        paid = {price.label: amount(price, cost) for price, cost in self.costs.items()}
        counted = {
            EVENTS[name]: human_bytes(count) if name.startswith("bytes") else number(count) for name, count in self.events.items()
        }
        spent = "" if self.reached or self.target is None else "> "
        return {heading: f"{spent}{text}" for heading, text in (paid | counted).items()}


def costs_of(result: Result) -> Costs:
    """Return the cost of a run under each of its prices."""
    best = stall = None
    if result.target:
        values = result.values(result.target.metric)
        best = float(np.nanmin(values)) if np.isfinite(values).any() else None
        stall = None if result.hit is not None else stalled(values, result.target.below)
    row, prices = -1 if result.hit is None else result.hit, prices_of(result)
    apart = {name for name, price in (("exchanges", Exchanges()), ("seconds", Clock())) if price in prices}
    if not result.trace["seconds"][-1]:
        apart.add("seconds")
    return Costs(
        label=result.label,
        target=result.target,
        round=None if result.hit is None else int(result.trace["round"][result.hit]),
        best=best,
        costs={price: result.cost(price) for price in prices},
        events={name: result.trace[name][row] for name in EVENTS if name not in apart},
        diverged=result.summary.get("status") == "diverged",
        stall=stall,
    )


def prices_of(result: Result) -> list[Price]:
    """Return the different prices of a run; exchanges where it has none."""
    return list(dict.fromkeys(result.prices)) or [Exchanges()]


def main_metric(result: Result) -> str:
    """Return the metric of the target, or the first of `METRICS` that the run has."""
    columns = result.trace.columns
    if result.target and result.target.metric in columns:
        return result.target.metric
    metrics = [metric for metric in METRICS if metric in columns]
    if not metrics:
        raise UserError(f"{result.label} has no metric: run it again with one")
    return metrics[0]
