"""What a comparison on networks found, in sentences made from its numbers."""

import math

from turnout.report.format import listed, number
from turnout.reproduce.networks.figures import NAMES, priced
from turnout.reproduce.networks.paper import Claim, Goal, Paper
from turnout.reproduce.networks.tables import Entry, Numbers


def verdict(paper: Paper, numbers: Numbers, problems: list[str]) -> list[str]:
    """Say what became of each claim about `problems`."""
    return [judged(paper, numbers, claim) for claim in paper.claims if claim.problem in problems]


def judged(paper: Paper, numbers: Numbers, claim: Claim) -> str:
    """Say what the two contenders of a claim paid, and whether it holds; a rival that did not arrive counts with its end."""
    goal = next(column.goal for column in paper.columns if column.title == claim.column)
    own, rival = (numbers.entry(claim.problem, name, goal) for name in (claim.own, claim.rival))
    titles = [paper.contenders[name].title for name in (claim.own, claim.rival)]
    where, metric = paper.settings[claim.problem].title, NAMES[goal.metric]
    if goal.level is None:
        better = own.mean > rival.mean if goal.upwards else own.mean < rival.mean
        return (
            f"On {where}, the best {metric} of {titles[0]} is {cost(own)} and of {titles[1]} {cost(rival)} ({len(own.costs)} "
            f"seeds): that the first is better {'holds' if better else 'does not hold'}."
        )
    met = "met" if own.mean <= claim.factor * rival.least else "not met"
    at_most = "" if math.isfinite(rival.mean) else "at most "
    ratio = f"{at_most}{number(own.mean / rival.least)}" if math.isfinite(own.mean) else "not known"
    return (
        f"On {where}, {aim(numbers.known(claim.problem, goal))} costs {titles[0]} {cost(own)} and "
        f"{titles[1]} {cost(rival)} ({priced(goal.price)}, {len(own.costs)} seeds), a ratio of {ratio}: the bar of "
        f"{claim.factor:g} is {met}."
    )


def aim(goal: Goal) -> str:
    """Write a goal such as "a training accuracy of 0.7"."""
    return f"a {NAMES[goal.metric]} of {number(float(goal.level or 0))}"


def cost(entry: Entry) -> str:
    """Write a mean cost with its standard error, or who arrived at all."""
    if not entry.costs.size:
        return "–"
    if math.isfinite(entry.mean):
        return number(entry.mean) + ("" if math.isnan(entry.error) else f" ± {entry.error:.2g}")
    return f"more than {number(entry.least)} ({entry.arrived} of {entry.costs.size} arrived)"


def tuned(paper: Paper, seeds: int, fresh: int) -> str:
    """Say which seeds the numbers are from."""
    tuning = paper.tuning
    sizes = "" if paper.scale == "paper" else " at the small scale, which fits two cores"
    return (
        f"Everything here is{sizes or ' at the scale of the paper'}. Settings are chosen with seed{'' if tuning == 1 else 's'} "
        f"{listed([str(seed) for seed in range(tuning)])}, each by the mean cost of what is shown; the numbers are from seeds "
        f"{fresh} to {fresh + seeds - 1}, which chose nothing."
    )
