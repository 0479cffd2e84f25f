"""The rows of a sweep: what its cheapest setting costs, and a run that stands for it."""

import numpy as np
import polars as pl

from turnout.accounting.prices import Price, cost_to_target
from turnout.accounting.target import Target


def cheapest(cells: pl.DataFrame, target: Target, price: Price) -> tuple[float, pl.DataFrame]:
    """Return the least median cost to `target` of all settings, and the rows of the run with that cost.

    A seed that misses the target has infinite cost. Of an even number of seeds the larger of the two values in the middle is the
    median.

    Args:
        cells: The rows of all runs; the columns up to "seed" tell which run it is.
        target: The target.
        price: The price of the events.
    """
    settings = cells.columns[: cells.columns.index("seed")]
    medians = []
    for setting in cells.partition_by(settings, maintain_order=True) if settings else [cells]:
        runs = setting.partition_by("seed", maintain_order=True)
        costs = [cost_to_target(price, run, target.first_hit(run)) for run in runs]
        order = np.argsort([np.inf if cost is None else cost for cost in costs], kind="stable")
        middle = int(order[len(runs) // 2])
        cost = costs[middle]
        medians.append((np.inf if cost is None else cost, runs[middle]))
    return min(medians, key=lambda median: median[0])
