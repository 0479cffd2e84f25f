"""One case: a plan of a problem at a price, beside the yardstick and the rivals."""

import time
from pathlib import Path

import jax
import numpy as np
import polars as pl

from benchmarks.planner.problems import PRICES, task
from benchmarks.planner.rivals import RIVALS, searched
from benchmarks.planner.yardstick import MANY_SEEDS, Yardstick
from turnout.accounting.prices import Price
from turnout.planner.envelope import WithEvent
from turnout.planner.plan import Plan
from turnout.planner.planner import Planner
from turnout.studies.cases import Cases
from turnout.studies.files import file_name
from turnout.studies.statistics import median

REPEATS = 5
"""Seeds of each rival."""

ENVELOPE = "exchanges"
"""The price of the plans that also name what is best at other prices."""

SPENDS = np.logspace(-2, 0, 21)
"""Shares of the CPU seconds at which the best candidate so far is noted."""


class Watched:
    """A planner whose best candidate on the first seed is noted as it plans.

    Args:
        table: The yardstick.
        price: The price.
    """

    def __init__(self, table: Yardstick, price: Price):
        self.table, self.price = table, price
        self.incumbents: list[tuple[float, int]] = []
        self.planner = Planner(task(table.name, price), None, Cases(), self._note)
        self._runs, self._noting, self._began = 0, 0.0, 0.0

    def plan(self) -> tuple[Plan, float]:
        """Plan, and return the plan and the CPU seconds that it took."""
        self._began = time.process_time()
        plan = self.planner.plan(envelope=False)
        return plan, time.process_time() - self._began - self._noting

    def _note(self, doing: str, runs: int) -> None:
        """Note the best candidate each time that runs have grown by a tenth."""
        if runs < 1.1 * self._runs:
            return
        began, self._runs = time.process_time(), runs
        played = [one for family in self.planner.families for place in family.structures for one in family.played(place)]
        known = [(one, one.trial(0)) for one in played]
        met = [(trial.spent(self.price), one) for one, trial in known if trial.met]
        if met:
            _, one = min(met, key=lambda pair: pair[0])
            self.incumbents.append((began - self._began - self._noting, self.table.number(one.setting.method, one.setting.label)))
        self._noting += time.process_time() - began


def compare(name: str, folder: Path) -> pl.DataFrame:
    """Return a row for each price: the cost of the plan, of the yardstick and of each rival, and what they took."""
    file = folder / f"{file_name(name)}.cases.parquet"
    rows = pl.read_parquet(file).to_dicts() if file.exists() else []
    if missing := [label for label in PRICES if label not in {row["price"] for row in rows}]:
        table = Yardstick(name, folder)
        for label in missing:
            rows.append(case(table, label, PRICES[label]))
            _frame(rows).write_parquet(file)
    return _frame(rows)


def case(table: Yardstick, label: str, price: Price) -> dict:
    """Return the row of a problem at a price."""
    best = table.best(price)
    cost = table.fresh_cost(best, price)
    jax.clear_caches()
    watched = Watched(table, price)
    plan, seconds = watched.plan()
    chosen = table.number(plan.ranking["family"][0], plan.ranking["setting"][0])
    row = {
        "problem": table.name,
        "price": label,
        "plan": plan.cost,
        "yardstick": cost,
        "ratio": plan.cost / cost,
        "seconds": seconds / table.seconds,
        "rounds": plan.spent.rounds / table.rounds,
        "planned": _title(table, chosen),
        "best": _title(table, best),
        "yardstick_seconds": table.seconds,
    }
    regret, bill = Regret(table, price), table.bill(watched.planner)
    row["priced"] = bill / table.seconds
    row["regret"] = regret.along(watched.incumbents, seconds)
    row["elsewhere"] = elsewhere(table, watched.planner, price) if label == ENVELOPE else None
    for rival in RIVALS:
        searches = [searched(rival, table, price, bill, seed) for seed in range(REPEATS)]
        row[rival] = float(np.median([table.fresh_cost(choice, price) for choice, _ in searches]))
        curves = [regret.along(player.incumbents, bill) for _, player in searches]
        row[f"regret of {rival}"] = np.median(curves, 0).tolist()
    print({key: value for key, value in row.items() if not key.startswith("regret")}, flush=True)
    return row


def elsewhere(table: Yardstick, planner: Planner, price: Price) -> float:
    """Return the largest cost, over that of the yardstick, of what a plan names at eight prices that it was not asked for."""
    ratios = []
    for row in planner.plan().envelope[2::5].iter_rows(named=True):
        other = WithEvent(price, planner.against, row["rate"])
        named = table.number(row["family"], row["setting"])
        cost, least = (table.fresh_cost(one, other, MANY_SEEDS) for one in (named, table.best(other)))
        ratios.append(cost / least)
    return max(ratios)


class Regret:
    """What the best candidate so far costs, over the best of all, on the seeds of the yardstick.

    Args:
        table: The yardstick.
        price: The price.
    """

    def __init__(self, table: Yardstick, price: Price):
        medians = median(table.costs(price))
        self.ratios = medians / medians.min()

    def along(self, incumbents: list[tuple[float, int]], seconds: float) -> list[float]:
        """Return the ratio at each share of so many CPU seconds; infinite before a candidate arrives."""
        at = np.array([spent for spent, _ in incumbents])
        last = np.searchsorted(at, SPENDS * seconds, side="right") - 1
        return [float(self.ratios[incumbents[k][1]]) if k >= 0 else float("inf") for k in last]


def _frame(rows: list[dict]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def _title(table: Yardstick, candidate: int) -> str:
    family, setting = table.candidates.row(candidate)[:2]
    return f"{family}: {setting}"
