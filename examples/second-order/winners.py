"""Who is cheapest where, in words, and what is at the edge of a grid."""

import math
from itertools import product

import polars as pl

import turnout as t

SHOWN = 3
"""Methods that a sentence names."""


def winners(study: t.Study) -> list[str]:
    """Name the cheapest methods of each problem, goal and price, and the settings at the edge of their grids."""
    declared = study.declaration
    ranked = [
        _ranking(study, problem, goal, price)
        for goal, price, problem in product(declared.goals, declared.prices, declared.problems)
    ]
    return [sentence for sentence in (*ranked, *(_edges(study, method) for method in declared.methods)) if sentence]


def _ranking(study: t.Study, problem: str, goal: str, price: str) -> str:
    """Say who is cheapest, with the medians over the seeds."""
    best = study.best(goal, price).filter(pl.col("problem") == problem, pl.col("cost").is_finite()).sort("cost")
    if best.is_empty():
        return ""
    declared = study.declaration
    named = [f"{declared.methods[row['method']].title} ({row['cost']:,.0f})" for row in best.head(SHOWN).iter_rows(named=True)]
    return f"{declared.problems[problem]}, {goal} in {price}: {', '.join(named)}."


def _edges(study: t.Study, method: str) -> str:
    """Say which numbers are at the edge of their grids at settings that reach a goal."""
    declared, found = study.declaration, set()
    tuned = study.costs().filter(pl.col("method") == method, pl.col("purpose") == "tune")
    for goal, price in product(declared.goals, declared.prices):
        for row in study.best(goal, price).filter(pl.col("method") == method, pl.col("cost").is_finite()).iter_rows(named=True):
            grid = tuned.filter(pl.col("problem") == row["problem"])
            for key in [name for name in grid.columns if "." in name and grid[name].dtype.is_numeric()]:
                values = grid[key].drop_nulls().unique().sort()
                if len(values) > 2 and row[key] in (values[0], values[-1]) and math.isfinite(row["cost"]):
                    found.add(f"{key} = {row[key]:g} on {declared.problems[row['problem']]}")
    return f"{declared.methods[method].title} is at the edge of its grid: {'; '.join(sorted(found))}." if found else ""
