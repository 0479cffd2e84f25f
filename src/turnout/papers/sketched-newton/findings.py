"""What one setting saves against LocalGD tuned on each problem, and what is left of it against the strongest simple rival."""

import polars as pl

import turnout as t
from turnout.studies.statistics import median

MINE, NICE, SHUFFLED = "sketched-newton", "localgd-nice", "localgd-shuffled-decay"


def findings(study: t.Study) -> list[str]:
    """Say how much is saved against each rival, and where the best of a grid is at its edge."""
    played = {*study.declaration.methods}
    against = [_saved(study, rival) for rival in (NICE, SHUFFLED) if {MINE, rival} <= played]
    return [*against, *(_edges(study, rival) for rival in (NICE, SHUFFLED) if rival in played)]


def _saved(study: t.Study, rival: str) -> str:
    """Say what is saved against a rival: the least, the middle and the most over the problems."""
    best = study.best()
    mine, other = (best.filter(pl.col("method") == name).select("problem", "cost") for name in (MINE, rival))
    both = mine.join(other, on="problem", suffix="_rival").with_columns(saved=1 - pl.col("cost") / pl.col("cost_rival"))
    saved = both["saved"].sort()
    worse = both.filter(pl.col("cost") > pl.col("cost_rival"))["problem"].to_list()
    titles = [study.declaration.problems[name] for name in worse]
    where = f"it costs more on {', '.join(titles)}" if titles else "it costs more nowhere"
    return (
        f"Against {study.declaration.methods[rival].title}, tuned on each of {both.height} problems, one setting saves "
        f"{saved[0]:.1%} to {saved[-1]:.1%} of the exchanges, {float(median(saved.to_numpy())):.1%} in the middle; {where}."
    )


def _edges(study: t.Study, method: str) -> str:
    """Say on which problems the tuned setting is at the edge of its grid."""
    tuned = study.costs().filter(pl.col("method") == method, pl.col("purpose") == "tune")
    chosen = study.best().filter(pl.col("method") == method)
    keys = [key for key in ("algorithm.lr", "algorithm.schedule.rounds") if key in tuned.columns and tuned[key].n_unique() > 1]
    at_edge = []
    for row in chosen.iter_rows(named=True):
        grid = tuned.filter(pl.col("problem") == row["problem"])
        if any(row[key] in (grid[key].min(), grid[key].max()) for key in keys):
            at_edge.append(study.declaration.problems[row["problem"]])
    where = f"at an edge of the grid on {', '.join(at_edge)}" if at_edge else "at no edge of the grid"
    return f"The best setting of {study.declaration.methods[method].title} is {where}."
