"""The arithmetic of the tables: medians, the best setting on the seeds that tune, and what it costs on fresh ones."""

import math
from dataclasses import dataclass

import polars as pl

from turnout.accounting.prices import Exchanges, Hierarchical, Price
from turnout.reproduce.costs.paper import Paper

PRICES: tuple[Price, ...] = (Exchanges(), Hierarchical(c1=0.1, c2=1.0), Hierarchical(c1=0.05, c2=1.0))
UNITS = ("iterations", "exchanges")
"""What an exchange costs one of: a solver's iteration, its line search free, as the paper counts; or every exchange."""

FIXED = ("data", "family", "fresh", "seed", "below", "exchanges", "iterations", "cohorts", "bytes")
"""The columns of hits that are no hyper-parameters."""


@dataclass(frozen=True)
class Entry:
    """The best setting of some families on one data set, for one target, price and unit, and its median costs.

    `tuned` is over the seeds that chose it, `cost` over fresh ones; infinite where half of the seeds or more did not arrive.
    `settings` is None where no setting arrived at all.
    """

    data: str
    below: float
    price: Price
    unit: str
    family: str
    settings: dict[str, float] | None
    tuned: float = math.inf
    cost: float = math.inf


def spent(price: Price, unit: str) -> pl.Expr:
    """Return the cost of a hit under `price`, an exchange being counted in `unit`; infinite where the target was not met."""
    events = {"exchanges": pl.col(unit), "cohorts": pl.col("cohorts"), "bytes_down": pl.col("bytes"), "bytes_up": pl.lit(0)}
    return price.cost(events).cast(pl.Float64).fill_null(math.inf)


def medians(hits: pl.DataFrame, price: Price, unit: str) -> pl.DataFrame:
    """Return the median `cost` of each data set, family, setting and target, cheapest first.

    Of an even number of seeds it is the larger of the two in the middle, so that infinity does no harm.
    """
    settings = [name for name in hits.columns if name not in FIXED]
    costs = hits.with_columns(cost=spent(price, unit))
    grouped = costs.group_by("data", "family", *settings, "below", maintain_order=True)
    middle = pl.col("cost").quantile(0.5, interpolation="higher")
    return grouped.agg(middle, mean=pl.col("cost").mean()).sort("cost", "mean", maintain_order=True).drop("mean")


def tuned(hits: pl.DataFrame, families: list[str], data: str, below: float, price: Price, unit: str) -> Entry:
    """Return the cheapest setting of any of `families`, by the median over the seeds that tune."""
    mine = hits.filter(~pl.col("fresh"), pl.col("data") == data, pl.col("family").is_in(families), pl.col("below") == below)
    best = medians(mine, price, unit).row(0, named=True)
    family, cost = best["family"], best["cost"]
    settings = {name: value for name, value in best.items() if name not in (*FIXED, "cost") and value is not None}
    return Entry(data, below, price, unit, family, settings if math.isfinite(cost) else None, cost)


def reported(entry: Entry, hits: pl.DataFrame) -> Entry:
    """Return `entry` with its median cost on fresh seeds."""
    if entry.settings is None:
        return entry
    rows = hits.filter(
        pl.col("fresh"), pl.col("data") == entry.data, pl.col("family") == entry.family, pl.col("below") == entry.below,
        *(pl.col(name) == value for name, value in entry.settings.items()),
    )  # fmt: skip
    fixed = (entry.data, entry.below, entry.price, entry.unit, entry.family, entry.settings, entry.tuned)
    return Entry(*fixed, cost=float(medians(rows, entry.price, entry.unit)["cost"][0]))


def reduction(cost: float, reference: float) -> float | None:
    """Return by how many percent `cost` is below `reference`; None unless both are finite."""
    return 100 * (1 - cost / reference) if math.isfinite(cost) and math.isfinite(reference) else None


@dataclass(frozen=True)
class Row:
    """One row of the table: LocalGD under two samplers against SPPM-AS, counted in `UNITS`."""

    nice: Entry
    stratified: Entry
    sppm: dict[str, Entry]

    def reduction(self, unit: str, against: str = "nice") -> float | None:
        """Return the reduction in percent of SPPM-AS against LocalGD."""
        return reduction(self.sppm[unit].cost, getattr(self, against).cost)


class Tables:
    """The entries of a paper's table and ladder, chosen by the seeds that tune; `report` reads the fresh ones."""

    def __init__(self, paper: Paper, sets: list[str], hits: pl.DataFrame):
        self.paper, self.sets, self.hits = paper, sets, hits
        self._entries: dict[tuple, Entry] = {}

    def entry(self, families: list[str], data: str, below: float, price: Price, unit: str) -> Entry:
        """Return the tuned entry of `families`, reported on fresh seeds where they have been played."""
        key = (tuple(families), data, below, price, unit)
        if key not in self._entries:
            self._entries[key] = tuned(self.hits, families, data, below, price, unit)
        return self._entries[key]

    def rows(self) -> list[Row]:
        """Return the rows of the table: data sets, targets and prices."""
        spec, find = self.paper.table, self.entry
        return [
            Row(
                find(spec.nice, data, below, price, "exchanges"),
                find(spec.stratified, data, below, price, "exchanges"),
                {unit: find(spec.sppm, data, below, price, unit) for unit in UNITS},
            )
            for data in self.sets
            for below in self.paper.targets
            for price in PRICES
        ]

    def ladder(self, price: Price) -> dict[str, list[Entry]]:
        """Return for each rung its entries under `price`, in true exchanges: the data sets for each target in turn."""
        cells = [(data, below) for below in self.paper.targets for data in self.sets]
        return {
            rung.label: [self.entry(rung.families, data, below, price, "exchanges") for data, below in cells]
            for rung in self.paper.ladder
        }

    def picked(self) -> dict[tuple[str, str], list[dict[str, float]]]:
        """Return the settings that need fresh runs, by data set and family."""
        self.rows()
        for price in PRICES[:2]:
            self.ladder(price)
        found: dict[tuple[str, str], list[dict[str, float]]] = {}
        for entry in self._entries.values():
            known = found.setdefault((entry.data, entry.family), [])
            if entry.settings is not None and entry.settings not in known:
                known.append(entry.settings)
        return {key: settings for key, settings in found.items() if settings}

    def plain(self) -> list[dict]:
        """Return all entries as plain data; a cost that is not finite becomes None."""
        rows = [{**vars(entry), "price": entry.price.label} for entry in self._entries.values()]
        return [{k: None if v == math.inf else v for k, v in row.items()} for row in rows]

    def report(self, hits: pl.DataFrame) -> None:
        """Take the costs of all entries from the fresh runs among `hits`."""
        self._entries = {key: reported(entry, hits) for key, entry in self._entries.items()}
