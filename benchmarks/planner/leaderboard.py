"""The leaderboard: what each family needs on each problem at each price, from the yardsticks.

`python -m benchmarks.planner.leaderboard` plays what is missing and writes results/leaderboard; with `--problems` it replaces
what is known of some problems, and with `--row N` it plays that row of the table again and prints its costs.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.planner import lines as planner_lines
from benchmarks.planner.cases import compare
from benchmarks.planner.problems import PRICES, PROBLEMS, task
from benchmarks.planner.regret import svg
from benchmarks.planner.yardstick import FRESH_SEEDS, Yardstick, costs_of, end_of
from turnout.accounting.prices import Exchanges, Price
from turnout.planner.planner import Planner
from turnout.report.format import amount
from turnout.studies.cases import Cases
from turnout.studies.statistics import interval, median

SHOWN = 5
"""Families of a problem at a price that the page shows; the table has all."""

OUT = Path("results/leaderboard")


def main() -> None:
    """Write the leaderboard, or play a row of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planner.leaderboard", description=__doc__)
    parser.add_argument("--yardsticks", type=Path, default=Path("bench/planner"), help="folder of the yardsticks")
    parser.add_argument("--problems", nargs="*", default=[*PROBLEMS], help="names of problems, all by default")
    parser.add_argument("--row", type=int, help="number of the row to play again")
    options = parser.parse_args()
    if options.row is not None:
        print(replayed(pl.read_csv(OUT / "leaderboard.csv").row(options.row - 1, named=True)))
        return
    rows = []
    for name in options.problems:
        table = Yardstick(name, options.yardsticks)
        rows += [row for label, price in PRICES.items() for row in standings(table, label, price)]
    OUT.mkdir(parents=True, exist_ok=True)
    table, file = OUT / "leaderboard.csv", OUT / "cases.parquet"
    old = pl.read_csv(table).drop("row") if table.exists() else None
    frame = with_others(pl.DataFrame(rows), old).with_row_index("row", 1)
    cases = pl.concat([compare(name, options.yardsticks) for name in options.problems], how="diagonal_relaxed")
    cases = with_others(cases, pl.read_parquet(file) if file.exists() else None)
    frame.write_csv(table)
    cases.write_parquet(file)
    (OUT / "leaderboard.md").write_text(page(frame, cases), encoding="utf-8")
    (OUT / "regret.svg").write_text(svg(cases), encoding="utf-8")


def with_others(new: pl.DataFrame, old: pl.DataFrame | None) -> pl.DataFrame:
    """Return the rows of some problems together with those that are known of others, in the order of the problems."""
    if old is not None:
        old = old.filter(~pl.col("problem").is_in(new["problem"].unique().to_list()))
        new = pl.concat([old, new], how="diagonal_relaxed")
    places = {name: number for number, name in enumerate(PROBLEMS)}
    return new.sort(pl.col("problem").replace_strict(places), maintain_order=True)


def standings(table: Yardstick, label: str, price: Price) -> list[dict]:
    """Return a row for each family: its best candidate on the seeds that choose, and its cost on fresh ones, cheapest first."""
    order, arrives = table.order(price), np.isfinite(median(table.costs(price)))
    firsts: dict[str, int] = {}
    for candidate in order.tolist():
        firsts.setdefault(table.candidates["family"][candidate], candidate)
    rows = []
    for family, best in firsts.items():
        fresh = table.fresh_costs(best, price) if arrives[best] else np.full(len(FRESH_SEEDS), np.inf)
        rows.append(row(table.name, label, family, table.candidates["setting"][best], fresh))
    return sorted(rows, key=lambda one: (one["cost"], -one["reached"]))


def row(problem: str, label: str, family: str, setting: str, costs: np.ndarray) -> dict:
    """Return the row of a candidate's costs on the fresh seeds."""
    return {"problem": problem, "price": label, "family": family, "setting": setting, **summary(costs)}


def summary(costs: np.ndarray) -> dict:
    """Return the median of costs [seeds] with its interval, and how many runs arrived."""
    low, high = interval(costs)
    return {"cost": float(median(costs)), "low": low, "high": high, "reached": int(np.isfinite(costs).sum())}


def replayed(stored: dict) -> dict:
    """Play the candidate of a row on the fresh seeds, and return its row."""
    planner = Planner(task(stored["problem"], Exchanges()), None, Cases(), lambda *_: None, quick=False)
    family = next(one for one in planner.families if one.name == stored["family"])
    contenders = (one for place in family.structures for one in family.contenders(place))
    one = next(one for one in contenders if one.setting.label == stored["setting"])
    costs = costs_of([end_of(one.trial(seed)) for seed in FRESH_SEEDS], PRICES[stored["price"]])
    return row(*(stored[key] for key in ("problem", "price", "family", "setting")), costs)


def page(frame: pl.DataFrame, cases: pl.DataFrame) -> str:
    """Return the page: the bars of the planner, and the first families of each problem at each price."""
    parts = [bars(cases)]
    for (problem, label), rows in frame.group_by("problem", "price", maintain_order=True):
        shown = rows.filter(pl.col("cost").is_finite()).head(SHOWN)
        lines = [
            f"| {one['row']} | {one['family']} | {one['setting']} | {amount(PRICES[label], one['cost'])} | "
            f"{amount(PRICES[label], one['low'])} – {amount(PRICES[label], one['high'])} | {one['reached']}/{len(FRESH_SEEDS)} |"
            for one in shown.iter_rows(named=True)
        ]
        goal = PROBLEMS[problem]["target"]
        head = f"## {problem}, {goal['metric']} < {goal['below']:g}, price: {PRICES[label].label}"
        columns = ["| row | family | setting | cost | 95 % interval | reached |", "| --- |" + " --- |" * 5]
        parts.append("\n".join([head, "", *columns, *lines]))
    return "\n\n".join(["# Leaderboard", *parts]) + "\n"


def bars(cases: pl.DataFrame) -> str:
    """Return how the plans compare with the best of the full grid and with rivals, on the problems that were played."""
    lines = [
        f"| {line.what} | {line.measured:.3g} | at {'least' if line.at_least else 'most'} {line.bar:g} | "
        f"{'yes' if line.passed else '**no**'} |"
        for line in planner_lines(cases)
    ]
    played = f"{cases['problem'].n_unique()} of {len(PROBLEMS)} problems at {len(PRICES)} prices each."
    return "\n".join(["## The planner", "", played, "", "| what | measured | bar | met |", "| --- |" + " --- |" * 3, *lines])


if __name__ == "__main__":
    main()
