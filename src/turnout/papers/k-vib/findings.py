"""What the samplers come to: their regret and their variance for each K, and the bars for samplers without hyper-parameters."""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl

import turnout as t
from turnout.core.named_class import named_function
from turnout.report.format import listed

WEIGHTED, EQUAL, SIZE = "size-weights", "equal-weights", "sampler.size"
CELL = ["problem", "method", SIZE]
OWN = "k-vib"
BASELINES = ("uniform", "uniform-fixed", "uniform-replacement", "vrb", "mabs", "avare", "osmd", "a-osmd")
INFORMED = ("k-vib-informed", "mabs", "osmd", "a-osmd")
SCALED = (OWN, "k-vib-0_1", "k-vib-0_3", "k-vib-3", "k-vib-fixed")

LATE, EXPONENT = 100, -4 / 3
"""How many of the last rounds are averaged apart, and the power of K of the paper's bound on the regret."""

MEASURES = {
    "regret": "cumulative dynamic regret",
    "variance": "mean variance over all rounds",
    "late": f"mean variance of the last {LATE} rounds",
}

LOWER, NEAR, RESIDUAL, GAIN = 70.0, 10.0, 95.0, 20.0
"""Percent: asked of last norm below K-Vib and above the optimum, of the residual sampler, of any with equal weights."""

MEMORY = "The residual sampler, FedVARP’s estimator with adaptive probabilities and a vector kept for each client,"


def findings(study: t.Study) -> list[str]:
    """Say what of the paper's claims holds, and what goes beyond it."""
    return [*Samplers(study).sentences(), *named_function("example.py:sentences", Path(__file__).parent)()]


def means(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the means over the seeds for each problem, method and K.

    These are the mean variance, also that of the last rounds, "late", and the regret at the end. "to_best" is the variance
    against the least that an independent sampler could have had on the same trajectory: sum_t V(p_t) / sum_t V(p*_t), where
    V(p_t) - V(p*_t) is what round t adds to the regret. A row's variance is the mean since the row before.
    """
    run = [*CELL, "seed"]
    span = pl.col("round") - pl.col("round").shift(1, fill_value=0).over(run)
    rows = rows.filter(pl.col("round") > 0).sort("round").with_columns(span=span)
    total, last = pl.col("variance") * pl.col("span"), pl.col("round") > pl.col("round").max() - LATE
    each = rows.group_by(run, maintain_order=True).agg(
        total.sum() / pl.col("round").last(),
        late=total.filter(last).sum() / pl.col("span").filter(last).sum(),
        regret=pl.col("regret").last(),
        to_best=total.sum() / (total.sum() - pl.col("regret").last()),
    )
    return each.sort(run).group_by(CELL, maintain_order=True).agg(pl.col("variance", "late", "regret", "to_best").mean())


class Samplers:
    """The means of all samplers, and sentences about them."""

    def __init__(self, study: t.Study):
        self.titles = {name: method.title for name, method in study.declaration.methods.items()}
        # Full participation has no K.
        rows = study.runs.filter(pl.col(SIZE).is_not_null()) if SIZE in study.runs.columns else pl.DataFrame()
        found = [] if rows.is_empty() else means(rows).rows(named=True)
        self.cells = {(row["problem"], row["method"], int(row[SIZE])): row for row in found}
        self.sizes = sorted(size for problem, method, size in self.cells if (problem, method) == (WEIGHTED, OWN))

    def sentences(self) -> list[str]:
        """Return all sentences about what was played."""
        if not self.sizes:
            return []
        return [
            *([self.advantage()] if self.plays(INFORMED) else []),
            *(self.rivals(measure, name) for measure, name in MEASURES.items() if self.plays(BASELINES)),
            *([self.power()] if len(self.sizes) > 1 else []),
            *([self.growth()] if len(self.sizes) > 1 and self.plays(BASELINES) else []),
            *([self.sensitivity()] if self.plays(SCALED) else []),
            *([self.static()] if self.plays(["size"]) else []),
            *([self.below("last-norm", LOWER, "Last norm")] if self.plays(["last-norm"]) else []),
            *([self.to_optimum()] if self.plays(["last-norm", "optimal"]) else []),
            *([self.below("residual", RESIDUAL, MEMORY)] if self.plays(["residual"]) else []),
            *([self.equal()] if self.plays([OWN, "optimal", "residual"], EQUAL) else []),
        ]

    def plays(self, methods: Iterable[str], problem: str = WEIGHTED) -> bool:
        """Return whether methods were played on a problem."""
        return {*methods} <= {name for place, name, _ in self.cells if place == problem}

    def get(self, method: str, size: int, measure: str, problem: str = WEIGHTED) -> float:
        """Return a mean; NaN where it was not played."""
        return self.cells.get((problem, method, size), {}).get(measure, math.nan)

    def saved(self, method: str, against: str = OWN, problem: str = WEIGHTED) -> list[float]:
        """Return by how many percent the mean variance is below that of another sampler, for each K."""
        pairs = [[self.get(name, size, "variance", problem) for name in (method, against)] for size in self.sizes]
        return [100 * (1 - mine / theirs) for mine, theirs in pairs]

    def slope(self, method: str) -> float:
        """Return the power of K that the regret follows: the slope of a least-squares line through the logarithms."""
        points = [(size, self.get(method, size, "regret")) for size in self.sizes]
        points = np.log([point for point in points if point[1] > 0] or np.ones((0, 2)))
        return float(np.polyfit(*points.T, 1)[0]) if len(points) > 1 else math.nan

    def advantage(self) -> str:
        """Say which samplers know beforehand what others have to find out."""
        return (
            f"{listed([self.titles[name] for name in INFORMED])} know beforehand how large all clients’ first feedback is, as "
            "their authors assume: an advantage over the others, which learn it from their first cohort. Its size is far from "
            "everyone’s where few clients have most of the weight."
        )

    def rivals(self, measure: str, name: str) -> str:
        """Say which baselines K-Vib beats in a measure, and at which K it does not."""
        beaten, ahead = [], []
        for rival in BASELINES:
            pairs = {size: (self.get(rival, size, measure), self.get(OWN, size, measure)) for size in self.sizes}
            lost = [size for size, (theirs, ours) in pairs.items() if not theirs > ours]
            values = [f"{pairs[size][0]:.3g} against {pairs[size][1]:.3g}" for size in lost]
            if lost:
                ahead.append(f"{self.titles[rival]} is as low or lower at {among(lost)} ({listed(values)})")
            else:
                beaten.append(self.titles[rival])
        own = self.titles[OWN]
        if not ahead:
            return f"In {name}, {own} is below every baseline at every K: the paper’s claim holds."
        return f"In {name}, {own} is below {listed(beaten) if beaten else 'no baseline'} at every K; {'; '.join(ahead)}."

    def power(self) -> str:
        """Compare the power of K that K-Vib's regret follows with the paper's bound."""
        slope = self.slope(OWN)
        outcome = (
            "it falls faster, which the bound allows but does not explain"
            if slope < EXPONENT
            else "it falls no faster than the bound"
        )
        return f"{self.titles[OWN]}’s regret falls like K^{slope:.2f}, the paper’s bound like K^{EXPONENT:.2f}: {outcome}."

    def growth(self) -> str:
        """Say whether the baselines' regret grows with K, as the paper says."""
        slopes = {self.titles[name]: self.slope(name) for name in BASELINES}
        slopes = {title: slope for title, slope in slopes.items() if math.isfinite(slope)}
        rising = [title for title, slope in slopes.items() if slope > 0]
        outcome = f"that of {listed(rising)} does" if rising else "it falls for each of them"
        powers = listed([f"{title} K^{slope:.2f}" for title, slope in slopes.items()])
        return f"The paper says that the regret of baselines grows with K; here {outcome}: {powers}."

    def sensitivity(self) -> str:
        """Say how much regret and variance change with γ."""
        size = next(size for size in self.sizes if (WEIGHTED, SCALED[-1], size) in self.cells)
        spans = []
        for measure in ("regret", "variance"):
            values = {self.titles[name]: self.get(name, size, measure) for name in SCALED}
            low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
            spans.append(f"{measure} is between {values[low]:.3g} ({low}) and {values[high]:.3g} ({high})")
        return f"With other γ at K = {size}, {listed(spans)}; the paper says that it changes little."

    def static(self) -> str:
        """Say whether probabilities that never change do better than K-Vib already."""
        saved = self.saved("size")
        lower = [size for size, value in zip(self.sizes, saved, strict=True) if value > 0]
        return (
            f"Probabilities proportional to λ that never change have a lower mean variance than {self.titles[OWN]} at "
            f"{among(lower)}: {percents(saved)} lower at {among(self.sizes)}."
        )

    def to_optimum(self) -> str:
        """Hold last norm to its bar against the optimum, in both senses."""
        own = [100 * (self.get("last-norm", size, "to_best") - 1) for size in self.sizes]
        other = [-value for value in self.saved("last-norm", "optimal")]
        return (
            f"Last norm is {percents(own)} above the least that full information allows along its own trajectory, and "
            f"{percents(other)} above the run of the optimum itself: the bar of {NEAR:g} % is "
            f"{met(value <= NEAR for value in own)} by the first and {met(value <= NEAR for value in other)} by the second."
        )

    def below(self, method: str, bar: float, what: str) -> str:
        """Say how far a sampler's variance is below that of K-Vib, and whether that is at least `bar` percent at every K."""
        saved = self.saved(method)
        return (
            f"{what} has a mean variance {percents(saved)} below {self.titles[OWN]} at {among(self.sizes)}: the bar of {bar:g} % "
            f"at every K is {met(value >= bar for value in saved)}."
        )

    def equal(self) -> str:
        """Say what is left to gain where all clients have the same weight."""
        best, memory = (self.saved(name, problem=EQUAL) for name in ("optimal", "residual"))
        enough = [size for size, value in zip(self.sizes, best, strict=True) if value >= GAIN]
        return (
            f"With equal weights λ = 1/N the optimum without memory is {percents(best)} below {self.titles[OWN]} at "
            f"{among(self.sizes)}, so that a gain of {GAIN:g} % is within a memoryless sampler’s reach at {among(enough)}; the "
            f"residual sampler is {percents(memory)} below."
        )


def percents(values: Iterable[float]) -> str:
    """Write reductions in percent; an increase is one below zero."""
    return listed([f"{value:.1f} %" if math.isfinite(value) else "–" for value in values])


def among(sizes: list[int]) -> str:
    """Write at which K something holds."""
    return f"K = {listed([str(size) for size in sizes])}" if sizes else "no K"


def met(holds: Iterable[bool]) -> str:
    """Say whether a bar is met at every K."""
    return "met" if all(holds) else "not met"
