"""The result of a comparison in a few sentences."""

from turnout.report.format import amount, goal, listed
from turnout.report.table import Row, Table


def headline(table: Table) -> list[str]:
    """Return which run is cheapest to the target under each price, and what limits the comparison."""
    sentences = [_answer(table)]
    reached = [row for row in table.rows if row.reached]
    not_reached = [row.label for row in table.rows if not row.reached]
    if table.target and reached and not_reached:
        sentences.append(f"{listed(not_reached)} did not reach it.")
    sentences += stalls(table)
    if not table.same_problem:
        sentences.append("The runs are not all of the same problem and split: their costs cannot be compared.")
    return sentences


def stalls(table: Table) -> list[str]:
    """Return a sentence about each run that comes no nearer to its target."""
    return [
        f"{row.label} stalls: {row.target.metric} went from {row.stall[0]:.4g} to {row.stall[1]:.4g} in its last rounds; at this "
        f"pace four times as many miss {row.target.below:g}: change the step size, average iterates, or draw more clients."
        for row in table.rows
        if row.stall and row.target
    ]


def _answer(table: Table) -> str:
    if table.target is None:
        if any(row.target for row in table.rows):
            return "The runs have different targets, so none is marked as cheapest."
        return "No target was set, so there is no cost to reach it to compare."
    if not any(row.reached for row in table.rows):
        return _none_reached(table)
    if len(table.rows) == 1:
        row = table.rows[0]
        costs = [f"{row.cost(price, k)} under {price.label}" for k, price in enumerate(table.prices)]
        return f"{row.label} reached {goal(table.target)} in {row.outcome}, at a cost of {listed(costs)}."
    return f"Cheapest to {goal(table.target)}: {'; '.join(_winners(table))}."


def _none_reached(table: Table) -> str:
    with_best = [row for row in table.rows if row.best is not None]
    sentence = f"No run reached {goal(table.target)}" if len(table.rows) > 1 else f"{goal(table.target)} was not reached"
    if not with_best:
        return f"{sentence}."
    nearest = min(with_best, key=lambda row: row.best)
    which = (
        f"the nearest was {nearest.label} with {nearest.best:.4g}" if len(table.rows) > 1 else f"the best was {nearest.best:.4g}"
    )
    return f"{sentence}; {which}."


def _winners(table: Table) -> list[str]:
    """Return "A under exchanges (70) and bytes (1.2 MB)" for each result, or tie, that wins under some price."""
    wins: dict[tuple[str, ...], list[str]] = {}
    for k, price in enumerate(table.prices):
        best: list[Row] = [row for row in table.rows if row.cheapest[k]]
        cost = amount(price, best[0].costs[k])
        wins.setdefault(tuple(row.label for row in best), []).append(f"{price.label} ({cost})")
    return [f"{listed(list(who))}{' (tie)' if len(who) > 1 else ''} under {listed(what)}" for who, what in wins.items()]
