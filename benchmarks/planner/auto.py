"""How `turnout.auto`, which plays nothing, compares with the best candidate of the full grid, on problems that chose neither.

`python -m benchmarks.planner.auto` plays what is missing and writes results/auto; it takes about two hours of one core.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

import turnout as t
from benchmarks.planner.judging import JUDGED, best_of_grid, judged
from benchmarks.planner.leaderboard import row, summary
from benchmarks.planner.problems import PRICES
from benchmarks.planner.yardstick import FRESH_SEEDS, costs_of, end_of
from benchmarks.timing import Line
from turnout.accounting.prices import Exchanges, Price
from turnout.planner.planner import Planner
from turnout.planner.task import PROBLEM, Limits, task_of
from turnout.report.format import amount
from turnout.studies.cases import Cases
from turnout.studies.grid import settings_of

OUT = Path("results/auto")
METHOD = "auto"


def main() -> None:
    """Play what is missing, and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planner.auto", description=__doc__)
    parser.add_argument("--problems", nargs="*", default=[*JUDGED], help="names of problems, all by default")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the tables")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.problems:
        for part, play in (("grid", grid_rows), ("auto", auto_rows)):
            print(_kept(options.out / f"{part}.csv", name, play))
    (options.out / "auto.md").write_text(page(*(pl.read_csv(options.out / f"{part}.csv") for part in ("grid", "auto"))))


def _kept(file: Path, name: str, play) -> pl.DataFrame:
    """Return the rows of a problem in a table, to which those that are missing are added."""
    known = pl.read_csv(file) if file.exists() else None
    if known is None or name not in known["problem"]:
        rows = pl.DataFrame(play(name))
        known = rows if known is None else pl.concat([known, rows], how="diagonal_relaxed")
        known.write_csv(file)
    return known.filter(pl.col("problem") == name)


def grid_rows(name: str) -> list[dict]:
    """Return a row for each price: the best candidate of the full grid, and what it costs on fresh seeds."""
    return [row(name, label, *best) for label, best in best_of_grid(name).items()]


def auto_rows(name: str) -> list[dict]:
    """Return a row for each price: the method, and what it costs on fresh seeds."""
    return [auto_row(name, label, price) for label, price in PRICES.items()]


def auto_row(name: str, label: str, price: Price) -> dict:
    """Return the row of a problem at a price."""
    declaration, cases = judged(name).declaration, Cases()
    setting = settings_of(declaration, PROBLEM, next(iter(declaration.methods)))[0]
    algorithm = t.auto(cases.of(setting.experiment()).problem, price)
    methods = {METHOD: {"title": METHOD, "algorithm": algorithm}}
    task = task_of(
        {**declaration.source.tables["problems"][PROBLEM], "methods": methods}, (Exchanges(),), Limits(allow=[METHOD]), name
    )
    (family,) = Planner(task, None, cases, lambda *_: None).families
    (one,) = family.contenders(family.centre())
    costs = costs_of([end_of(one.trial(seed)) for seed in FRESH_SEEDS], price)
    return {"problem": name, "price": label, "method": type(algorithm).__name__, **summary(costs)}


def joined(grid: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `auto` beside those of the grid, with the ratio of costs."""
    return own.join(grid, on=["problem", "price"], how="inner", suffix="_grid", maintain_order="left").with_columns(
        ratio=pl.col("cost") / pl.col("cost_grid")
    )


def lines(table: pl.DataFrame) -> list[Line]:
    """Return the bars."""
    ratios = table["ratio"].to_numpy()
    return [
        Line("auto", f"cost over that of the best candidate, median of {len(ratios)} cases", float(np.median(ratios)), 1.3),
        Line("auto", "90 % quantile", float(np.quantile(ratios, 0.9, method="higher")), 2.0),
    ]


def page(grid: pl.DataFrame, own: pl.DataFrame) -> str:
    """Return the page: the bars, and each problem at each price."""
    table = joined(grid, own)
    head = ["| what | measured | bar | met |", "| --- |" + " --- |" * 3]
    bars = [
        f"| {line.what} | {line.measured:.3g} | at most {line.bar:g} | {'yes' if line.passed else '**no**'} |"
        for line in lines(table)
    ]
    columns = ["| problem | price | auto | cost | best of the grid | setting | cost | ratio |", "| --- |" + " --- |" * 7]
    rows = [
        f"| {one['problem']} | {PRICES[one['price']].label} | {one['method']} | {_shown(one)} "
        f"| {one['family']} | {one['setting']} | {_shown(one, '_grid')} | {one['ratio']:.2f} |"
        for one in table.iter_rows(named=True)
    ]
    title = f"# A method without a plan\n\n{table['problem'].n_unique()} of {len(JUDGED)} problems at {len(PRICES)} prices each."
    return "\n".join([title, "", *head, *bars, "", *columns, *rows]) + "\n"


def _shown(one: dict, which: str = "") -> str:
    cost, low, high = (amount(PRICES[one["price"]], one[key + which]) for key in ("cost", "low", "high"))
    return f"{cost} [{low}, {high}]"


if __name__ == "__main__":
    main()
