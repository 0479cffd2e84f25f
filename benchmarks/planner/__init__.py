"""The planner against the yardstick, against rivals at equal compute, and at prices that it was not asked for."""

from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.planner.cases import compare
from benchmarks.planner.problems import PROBLEMS
from benchmarks.planner.rivals import RIVALS
from benchmarks.timing import Line

FOLDER = Path("bench/planner")
"""Where yardsticks and cases are kept; what is there is not played again."""


def measure() -> list[Line]:
    """Return how the plans of all problems at all prices compare with the yardstick and with rivals."""
    return lines(pl.concat([compare(name, FOLDER) for name in PROBLEMS], how="diagonal_relaxed"))


def lines(cases: pl.DataFrame) -> list[Line]:
    """Return the bars of all cases."""
    at_others = float(cases["elsewhere"].max())
    ratios, settings = cases["ratio"].to_numpy(), {"cases": cases.to_dicts()}
    above = cases.filter(pl.col("ratio") > 1).iter_rows(named=True)
    note = "; ".join(f"{row['problem']}, {row['price']}: {row['ratio']:.2f}" for row in above)
    within = float((ratios <= 1.1).mean())
    share = {"at_least": True, "unit": ""}
    return [
        Line("planner", f"share of {len(cases)} cases within 10 % of the yardstick", within, 0.8,
             note=note, settings=settings, **share),
        Line("planner", "largest cost over that of the yardstick", float(ratios.max()), 1.3),
        Line("planner", "CPU seconds over those of the yardstick, median", float(np.median(cases["seconds"])), 0.2),
        Line("planner", "rounds over those of the yardstick, median", float(np.median(cases["rounds"])), 0.2),
        *(
            Line("planner", f"share of cases not dearer than {name}", float((cases["plan"] <= cases[name]).mean()), 0.8,
                 note=f"cheaper in {int((cases['plan'] < cases[name]).sum())}", **share)
            for name in RIVALS
        ),
        Line("planner", "largest cost at eight prices not planned for, over that of the yardstick", at_others, 1.15),
    ]  # fmt: skip
