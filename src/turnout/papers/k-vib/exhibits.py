"""What the samplers need to a common loss, beside full participation."""

import math

import polars as pl

import turnout as t
from turnout.report.format import number
from turnout.studies.exhibits import OwnTable

GOAL, SIZE = "half of the loss", "sampler.size"
METHODS = ("uniform", "k-vib", "size", "last-norm", "residual", "full")


def exhibits(study: t.Study) -> list[OwnTable]:
    """Return the table of costs; none if no method of it was played."""
    costs = {price: study.costs(GOAL, price).filter(pl.col("method").is_in(METHODS)) for price in study.declaration.prices}
    if costs["exchanges"].is_empty():
        return []
    quality, records = variances(study.runs), []
    for row, contacts in zip(*(costs[price].iter_rows(named=True) for price in ("exchanges", "contacts")), strict=True):
        place = {key: row[key] for key in ("problem", "method", "setting")}
        (found,) = quality.filter(**place).iter_rows(named=True)
        records.append({
            "problem": study.declaration.problems[row["problem"]],
            "sampler": study.declaration.methods[row["method"]].title,
            "K": "–" if row.get(SIZE) is None else number(row[SIZE]),
            "exchanges": ranged(row),
            "contacts": ranged(contacts),
            "variance": f"{found['mean']:.3g} ± {found['error']:.2g}" if found["seeds"] > 1 else f"{found['mean']:.3g}",
        })  # fmt: skip
    caption = (
        "Medians over seeds with 95 % intervals, and the mean variance over all rounds with its standard error. An exchange is a "
        "round with a cohort."
    )
    frame = pl.DataFrame(records)
    return [OwnTable("costs", f"Cost to {study.goal(GOAL).words}, and variance", caption, frame)]


def ranged(row: dict) -> str:
    """Write a median cost with its interval."""
    cost, low, high = (
        number(row[key]) if math.isfinite(row[key]) else "never" for key in ("cost", "interval_low", "interval_high")
    )
    return f"{cost} ({low} – {high})"


def variances(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the mean over seeds of the mean variance of a run, which has a row for each round, and its standard error."""
    setting = ["problem", "method", "setting"]
    each = runs.filter(pl.col("round") > 0).group_by(*setting, "seed").agg(pl.col("variance").mean())
    value = pl.col("variance")
    return each.group_by(setting).agg(mean=value.mean(), error=value.std() / value.len().sqrt(), seeds=value.len())
