"""What a reproduction found, in sentences made from its numbers."""

import math

import polars as pl

from turnout.accounting.prices import Exchanges, Hierarchical
from turnout.report.format import listed, number
from turnout.reproduce.costs.paper import Figure
from turnout.reproduce.costs.run import Results
from turnout.reproduce.costs.tables import Entry, Row, Tables, reduction

NAMES = {"gamma": "γ", "inner": "K", "lr": "step", "steps": "local steps"}
SUFFIXES = {"lr": "/L"}
FLAT, HUBS = Exchanges(), Hierarchical(c1=0.1, c2=1.0)


def setting(entry: Entry) -> str:
    """Write the family and the setting of an entry, such as "sppm-bfgs, γ = 10, K = 2"."""
    if entry.settings is None:
        return "no setting reached it"
    parts = [f"{NAMES.get(name, name)} = {value:g}{SUFFIXES.get(name, '')}" for name, value in entry.settings.items()]
    return ", ".join([entry.family, *parts])


def cost(value: float) -> str:
    """Write a median cost."""
    return number(round(value, 2)) if math.isfinite(value) else "not reached"


def percent(value: float | None) -> str:
    """Write a reduction; one below zero is an increase."""
    return "–" if value is None else f"{value:.1f} %"


def caption(figure: Figure) -> str:
    """Say what a figure shows."""
    if figure.kind == "convergence":
        return (
            "Median over seeds against true exchanges, the band between the quartiles. Dashed: the targets, and the sampling "
            "error of cohorts of the first line's sampler, solved exactly and averaged: to get below takes more cohorts."
        )
    return (
        f"Median cost to the target, price: {figure.price.label}. Dashed: LocalGD with one local step and the best step size of "
        "its grid. Left in solver iterations, right in true exchanges. Settings whose median run does not arrive are left out."
    )


def verdict(tables: Tables, results: Results) -> list[str]:
    """Say whether the paper's numbers are reached, and why not."""
    rows, below = tables.rows(), tables.paper.targets[0]
    base = [row for row in rows if (row.nice.data, row.nice.below) == (tables.paper.sets[0], below)]
    return [
        *(_claim(row, tables) for row in base if row.nice.price in (FLAT, HUBS)),
        *one_cohort(tables, results),
        *everywhere(tables, [row for row in rows if row.nice.below == below and row.nice.price == FLAT]),
        *ladder(tables),
    ]


def _claim(row: Row, tables: Tables) -> str:
    """Set what the paper prints for its base setting beside what was found."""
    printed, flat = tables.paper.printed, row.nice.price == FLAT
    promised, theirs = (printed.reduction, printed.sppm) if flat else (printed.hierarchical_reduction, printed.hierarchical_sppm)
    saved = [row.reduction(unit) for unit in ("iterations", "exchanges")]
    reached = "reached" if any(value is not None and value >= promised for value in saved) else "not reached"
    iterations, exchanges = row.sppm["iterations"], row.sppm["exchanges"]
    return (
        f"{row.nice.data}, ε = {row.nice.below:g}, {'flat' if flat else 'hierarchical, c1 = 0.1'}: the paper prints "
        f"{theirs:g} against {printed.localgd:g}, {promised:g} % saved; here this is {reached}. LocalGD with uniform cohorts "
        f"needs {cost(row.nice.cost)} ({setting(row.nice)}); SPPM-SS {cost(iterations.cost)} in solver iterations "
        f"({setting(iterations)}), {percent(saved[0])} saved, and {cost(exchanges.cost)} in true exchanges "
        f"({setting(exchanges)}), {percent(saved[1])} saved.{'' if flat else _charged(printed)}"
    )


def _charged(printed) -> str:
    charged = (HUBS.c1 + HUBS.c2) * printed.localgd
    saved = reduction(printed.hierarchical_sppm, charged)
    return (
        f" The printed number charges LocalGD {printed.localgd:g}; with (c1 + c2) T it is {charged:g}, and "
        f"{printed.hierarchical_sppm:g} against that saves {saved:.2f} %."
    )


def one_cohort(tables: Tables, results: Results) -> list[str]:
    """Say how near one cohort alone comes to the target: both printed numbers are those of a single cohort."""
    base, below = tables.paper.sets[0], tables.paper.targets[0]
    sppm = pl.col("data") == base, pl.col("family").is_in(tables.paper.table.sppm)
    hits = results.hits.filter(*sppm, pl.col("below") == below)
    if hits.is_empty():
        return []
    firsts = results.curves.filter(*sppm, pl.col("round") == 1)
    nearest = firsts.sort("median").row(0, named=True)
    once = hits.filter(pl.col("cohorts") == 1).height
    return [
        f"Both printed numbers are those of one cohort, solved well. Of {hits.height:,} runs of SPPM-SS on {base}, {once:,} met "
        f"ε = {below:g} with one cohort; the nearest setting (γ = {nearest['gamma']:g}, K = {nearest['inner']:g}) has a median "
        f"distance of {nearest['median']:.2g} after it. What remains is that cohort's sampling error, which no solver removes."
    ]


def everywhere(tables: Tables, rows: list[Row]) -> list[str]:
    """Say on which data sets the paper's flat reduction is reached, against LocalGD with each sampler."""
    promised, sentences = tables.paper.printed.reduction, []
    for against, sampler in (("nice", "uniform cohorts"), ("stratified", "the same strata")):
        enough = [r.nice.data for r in rows if (r.reduction("exchanges", against) or -math.inf) >= promised]
        sentences.append(
            f"All exchanges counted, flat, ε = {rows[0].nice.below:g}: against LocalGD with {sampler} the paper's form saves "
            f"{promised:g} % or more on {listed(enough) if enough else 'none'} of {listed([r.nice.data for r in rows])}."
        )
    return sentences


def ladder(tables: Tables) -> list[str]:
    """Say which rungs save the paper's flat reduction on every data set."""
    promised, below = tables.paper.printed.reduction, tables.paper.targets[0]
    rungs = tables.ladder(FLAT)
    first = next(iter(rungs.values()))
    sentences = []
    for label, entries in rungs.items():
        pairs = [(mine, theirs) for mine, theirs in zip(entries, first, strict=True) if mine.below == below]
        saved = [reduction(mine.cost, theirs.cost) for mine, theirs in pairs]
        if all(value is not None and value >= promised for value in saved):
            counts = listed([f"{mine.data} {cost(theirs.cost)} → {cost(mine.cost)}" for mine, theirs in pairs])
            sentences.append(
                f"{label} saves {promised:g} % or more of the true exchanges on every data set at ε = {below:g}: {counts}."
            )
    return sentences or [f"Nothing in the ladder saves {promised:g} % of the true exchanges on every data set at ε = {below:g}."]
