"""The result of a run in a few sentences."""

from turnout.report.costs import Costs
from turnout.report.format import amount, goal, listed


def headline(costs: Costs) -> list[str]:
    """Return what the target cost under each price, or how near the run came to it."""
    return [_answer(costs), *stall(costs)]


def stall(costs: Costs) -> list[str]:
    """Return a sentence if the run comes no nearer to its target."""
    if costs.stall is None or costs.target is None:
        return []
    return [
        f"{costs.label} stalls: {costs.target.metric} went from {costs.stall[0]:.4g} to {costs.stall[1]:.4g} in its last rounds; "
        f"at this pace four times as many miss {costs.target.below:g}: change the step size, "
        "average iterates, or draw more clients."
    ]


def _answer(costs: Costs) -> str:
    if costs.target is None:
        return "No target was set, so there is no cost to reach it."
    if costs.reached:
        paid = [f"{amount(price, cost)} under {price.label}" for price, cost in costs.costs.items()]
        return f"{costs.label} reached {goal(costs.target)} in {costs.outcome}, at a cost of {listed(paid)}."
    best = "" if costs.best is None else f"; the best was {costs.best:.4g}"
    return f"{goal(costs.target)} was not reached{best}."
