"""The arithmetic of the tables: what each run cost until its gap was small enough, and medians over the seeds."""

import math

import polars as pl

from turnout.reproduce.dual.paper import AccuracySpec, Setup

CELL = ["set", "contender", "tau"]
COSTS = ("rounds", "exchanges", "bytes")


def hits(rounds: pl.DataFrame, setups: tuple[Setup, ...]) -> pl.DataFrame:
    """Return a row for each run and setup: the `COSTS` of the first model with a gap of at most `below`, null if none is."""
    run, frames = [*CELL, "seed"], []
    for setup in setups:
        mine = rounds.filter(pl.col("tau") == setup.tau).sort(*run, "round")
        near = mine.filter(pl.col("gap") <= setup.below).group_by(run, maintain_order=True).first()
        costs = near.select(*run, pl.col("round").alias("rounds"), "exchanges", "bytes")
        every = mine.select(run).unique(maintain_order=True)
        frames.append(every.join(costs, on=run, how="left").with_columns(below=pl.lit(setup.below)))
    return pl.concat(frames)


def medians(found: pl.DataFrame) -> pl.DataFrame:
    """Return the median of each cost over the seeds, infinite where as many seeds do not arrive, and the fewest and most rounds.

    Of an even number of seeds it is the larger of the two in the middle, so that infinity does no harm.
    """
    costs = found.with_columns(pl.col(name).cast(pl.Float64).fill_null(math.inf) for name in COSTS)
    middle = [pl.col(name).quantile(0.5, interpolation="higher") for name in COSTS]
    ends = [pl.col("rounds").min().alias("fewest"), pl.col("rounds").max().alias("most")]
    return costs.group_by(*CELL, "below", maintain_order=True).agg(*middle, *ends, seeds=pl.len())


def accuracies(rounds: pl.DataFrame, spec: AccuracySpec) -> pl.DataFrame:
    """Return for each set and contender the median over the seeds of the `best` test accuracy within the rounds, in percent."""
    mine = rounds.filter(pl.col("set").is_in(spec.sets), pl.col("tau") == spec.tau, pl.col("round").is_between(1, spec.rounds))
    best = mine.group_by(*CELL, "seed", maintain_order=True).agg(best=100 * pl.col("test_accuracy").max())
    return best.group_by("set", "contender", maintain_order=True).agg(pl.col("best").median())


class Numbers:
    """Medians, looked up by set, contender and setup; NaN where that was not played."""

    def __init__(self, found: pl.DataFrame, best: pl.DataFrame):
        self.frame, self.best = found, best
        self._costs = {
            (row["set"], row["contender"], Setup(tau=row["tau"], below=row["below"])): row for row in found.iter_rows(named=True)
        }
        self._best = {(row["set"], row["contender"]): row["best"] for row in best.iter_rows(named=True)}

    def cost(self, name: str, contender: str, setup: Setup, what: str = "rounds") -> float:
        """Return the median of one of `COSTS`, or "fewest" or "most" rounds."""
        return self._costs.get((name, contender, setup), {}).get(what, math.nan)

    def accuracy(self, name: str, contender: str) -> float:
        """Return the median of the best test accuracy in percent."""
        return self._best.get((name, contender), math.nan)
