"""The cost to reach the target: one row per result, one column per price."""

from dataclasses import dataclass

import numpy as np

from turnout.accounting.prices import Exchanges, Price
from turnout.accounting.stall import stalled
from turnout.accounting.target import Target
from turnout.core.errors import UserError
from turnout.report.format import METRICS, amount, human_bytes, number
from turnout.report.loaded_run import Result, distinct

EVENTS = {
    "exchanges": "exchanges",
    "iterations": "solver iterations",
    "cohorts": "fresh cohorts",
    "bytes_down": "bytes down",
    "bytes_up": "bytes up",
}
"""The events that a table counts, and their headings."""


@dataclass(frozen=True)
class Row:
    """The cost of one result: up to the target if it was reached, and of the whole run otherwise.

    Args:
        label: The label of the result.
        target: Its target, if it has one.
        round: The round at which the target was reached.
        best: The smallest value of the target's metric (for an accuracy: of the error rate).
        costs: The cost under each price of the table.
        cheapest: Whether that cost is the smallest of the table.
        events: The counts of `EVENTS`.
        diverged: Whether the run diverged.
        stall: The target's metric in the last two quarters of a run that comes no nearer to it.
    """

    label: str
    target: Target | None
    round: int | None
    best: float | None
    costs: tuple[float, ...]
    cheapest: tuple[bool, ...]
    events: dict[str, int]
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

    def cost(self, price: Price, k: int) -> str:
        """Format the cost under `price`, the k-th of the table; "> 70" if 70 was spent without reaching the target.

        Args:
            price: The price.
            k: Place of the price in the table.
        """
        return self._bound(amount(price, self.costs[k]))

    def count(self, event: str) -> str:
        """Format the count of `event`."""
        value = self.events[event]
        return self._bound(human_bytes(value) if event.startswith("bytes") else number(value))

    def _bound(self, text: str) -> str:
        return text if self.reached or self.target is None else f"> {text}"


@dataclass(frozen=True)
class Table:
    """The rows of a comparison.

    Args:
        prices: The price of each column of costs.
        target: The target of all results; None unless they have the same one.
        rows: One row for each result.
        same_problem: Whether all results have the same problem and split.
    """

    prices: tuple[Price, ...]
    target: Target | None
    rows: tuple[Row, ...]
    same_problem: bool

    @property
    def events(self) -> dict[str, str]:
        """The events with a column of their own, and their headings; the price of exchanges is their count already."""
        return {name: heading for name, heading in EVENTS.items() if name != "exchanges" or Exchanges() not in self.prices}


def table(results: list[Result]) -> Table:
    """Return the cost of each result under every price of any result."""
    if not results:
        raise UserError("there is nothing to report: give at least one finished run")
    results = distinct(results)
    prices = prices_of(results)
    targets = {result.target for result in results}
    shared = targets.pop() if len(targets) == 1 else None
    paid = [[result.cost(price) for price in prices] for result in results]
    reached = [result.hit is not None for result in results]
    marks = _cheapest(paid, reached) if shared and len(results) > 1 else np.zeros((len(results), len(prices)), bool)
    rows = [_paid(*parts) for parts in zip(results, paid, marks.tolist(), strict=True)]
    problems = [(result.summary.get("problem"), result.summary.get("split")) for result in results]
    return Table(tuple(prices), shared, tuple(rows), all(problem == problems[0] for problem in problems))


def prices_of(results: list[Result]) -> list[Price]:
    """Return the different prices of all results in order of appearance; exchanges where there are none."""
    return list(dict.fromkeys(price for result in results for price in result.prices)) or [Exchanges()]


def main_metric(results: list[Result]) -> str:
    """Return the metric of a target, or the first of `METRICS` that all results have."""
    common = shared_metrics(results)
    targets = [result.target.metric for result in results if result.target]
    chosen = next((metric for metric in [*targets, *common] if metric in common), None)
    if chosen is None:
        raise UserError("the results have no metric in common: run them again with the same metrics, or report each alone")
    return chosen


def shared_metrics(results: list[Result]) -> list[str]:
    """Return the metrics that all results have."""
    return [metric for metric in METRICS if all(metric in result.trace.columns for result in results)]


def _row(result: Result) -> int:
    return -1 if result.hit is None else result.hit


def _cheapest(paid: list[list[float]], reached: list[bool]) -> np.ndarray:
    """Mark the smallest cost [results, prices] of each column among the results that reached the target."""
    costs = np.where(np.asarray(reached)[:, None], np.asarray(paid), np.inf)
    return np.isfinite(costs) & (costs <= costs.min(axis=0))


def _paid(result: Result, costs: list[float], cheapest: list[bool]) -> Row:
    best = stall = None
    if result.target:
        values = result.values(result.target.metric)
        best = float(np.nanmin(values)) if np.isfinite(values).any() else None
        stall = None if result.hit is not None else stalled(values, result.target.below)
    return Row(
        label=result.label,
        target=result.target,
        round=None if result.hit is None else int(result.trace["round"][result.hit]),
        best=best,
        costs=tuple(costs),
        cheapest=tuple(cheapest),
        events={name: int(result.trace[name][_row(result)]) for name in EVENTS},
        diverged=result.summary.get("status") == "diverged",
        stall=stall,
    )
