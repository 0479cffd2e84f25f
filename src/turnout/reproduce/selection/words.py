"""What a comparison by selections found, in sentences made from its numbers."""

import math

from turnout.accounting.prices import Selection
from turnout.report.format import count, listed, number
from turnout.reproduce.selection.paper import Paper, Setup
from turnout.reproduce.selection.tables import Best, Numbers, exponent
from turnout.theory.selection import initial_passes


def verdict(paper: Paper, numbers: Numbers, problems: list[str], sizes: dict[str, float]) -> list[str]:
    """Say what of the paper's claims was found on `problems`; `sizes` are their n_m."""
    claims = paper.claims
    compared = [name for name in claims.compared if name in problems]
    grown = [growth(paper, numbers, names, sizes) for names in claims.growth if set(names) <= set(problems)]
    better = [beyond(paper, numbers, problem, name) for problem in problems for name in rivals(paper, problem, "beyond")]
    return [
        *(least(paper, numbers, name, setup) for name in compared for setup in paper.setups if setup.arbitrary == 1),
        *(prices(paper, numbers, name) for name in compared),
        *(passes(paper, numbers, name) for name in problems if set(claims.passes) <= set(paper.settings[name].contenders)),
        *grown,
        *better,
    ]


def rivals(paper: Paper, problem: str, *roles: str) -> list[str]:
    """Return who plays on `problem` with one of the `roles`."""
    return [name for name in paper.settings[problem].contenders if paper.contenders[name].role in roles]


def least(paper: Paper, numbers: Numbers, problem: str, setup: Setup) -> str:
    """Say who needs the least communication where all selections cost the same."""
    claims = paper.claims

    def cheapest(names: list[str]) -> str:
        return min(names, key=lambda name: cost(numbers, problem, name, setup))

    names = rivals(paper, problem, "paper", "baseline")
    ways = {claims.best, *claims.passes}
    mine, other = cheapest([name for name in names if name in ways]), cheapest([name for name in names if name not in ways])
    holds = "holds" if cheapest([other, mine]) == mine else "does not hold"
    return (
        f"On {paper.settings[problem].title}, down to {setup.below:g} at C_A = C_R = 1 and each at the best of its grid, "
        f"{paper.contenders[mine].title} needs {spent(numbers.best(problem, mine, setup))}, and "
        f"{paper.contenders[other].title}, the cheapest of the others, {spent(numbers.best(problem, other, setup))}: the claim "
        f"that it needs the least communication of all {holds}."
    )


def prices(paper: Paper, numbers: Numbers, problem: str) -> str:
    """Say how the costs of two methods grow with the price of arbitrary selections."""
    low, high = min(paper.ratios), max(paper.ratios)
    grown = []
    for name in (paper.claims.best, paper.claims.renewing):
        cheap, dear = (cost(numbers, problem, name, Setup(paper.below[0], ratio)) for ratio in (low, high))
        times = f"{quotient(dear, cheap)} times as much"
        grown.append(f"{paper.contenders[name].title} costs {times}")
    where = paper.settings[problem].title
    return f"On {where}, at C_A = {high:g} instead of {low:g} and each at its best again, {listed(grown)}."


def passes(paper: Paper, numbers: Numbers, problem: str) -> str:
    """Say how near the rule for the initial passes comes to the best number of them."""
    ways, rule, found = (paper.claims.best, *paper.claims.passes), [], []
    for ratio in paper.ratios:
        costs = [cost(numbers, problem, name, Setup(paper.below[0], ratio)) for name in ways]
        rule.append(initial_passes(Selection(ratio)))
        found.append(quotient(costs[rule[-1]], min(costs)))
    return (
        f"On {paper.settings[problem].title}, {listed([str(passes) for passes in rule])} initial passes at C_A = "
        f"{listed([f'{ratio:g}' for ratio in paper.ratios])}, as `turnout theory` chooses, cost "
        f"{listed(found)} times the best of 0, 1 and 2."
    )


def growth(paper: Paper, numbers: Numbers, names: list[str], sizes: dict[str, float]) -> str:
    """Say with which power of n_m the cost grows over some problems."""
    claims = paper.claims
    costs = [cost(numbers, name, claims.best, paper.setups[0]) for name in names]
    found = exponent([sizes[name] for name in names], costs)
    met = "met" if abs(found - claims.exponent) <= claims.within else "not met"
    return (
        f"With {listed([paper.settings[name].title for name in names])}, {paper.contenders[claims.best].title} costs "
        f"{listed([count(value) for value in costs])}, which grows as n_m to the power {quotient(found)}: the bar of "
        f"{claims.exponent:g} ± {claims.within:g} is {met}."
    )


def beyond(paper: Paper, numbers: Numbers, problem: str, name: str) -> str:
    """Say how near a method that knows no constants comes to the best of the grid."""
    mine, best = (cost(numbers, problem, each, paper.setups[0]) for each in (name, paper.claims.best))
    met = "met" if mine <= paper.claims.factor * best and math.isfinite(mine) else "not met"
    return (
        f"On {paper.settings[problem].title}, {paper.contenders[name].title} costs {count(mine)}, {quotient(mine, best)} "
        f"times the best of the grid: the bar of {paper.claims.factor:g} is {met}."
    )


def quotient(above: float, below: float = 1.0) -> str:
    """Write above / below in words, where both are known."""
    return number(above / below) if math.isfinite(above) and math.isfinite(below) else "(not known)"


def cost(numbers: Numbers, problem: str, name: str, setup: Setup) -> float:
    """Return the median cost of the best setting."""
    return numbers.best(problem, name, setup).cost


def spent(best: Best) -> str:
    """Write a cost with its queries, such as "107 (1,219 queries)"."""
    return f"{count(best.cost)} ({count(best.queries)} queries)" if math.isfinite(best.cost) else "more than was played"
