"""What a comparison of samplers found, in sentences made from its numbers."""

import math
from collections.abc import Iterable

from turnout.report.format import listed
from turnout.reproduce.sampling import case
from turnout.reproduce.sampling.paper import Contender, Paper
from turnout.reproduce.sampling.tables import Numbers

LOWER, NEAR, RESIDUAL, GAIN = 70.0, 10.0, 95.0, 20.0
"""Percent: asked of last norm below the paper's sampler and above the optimum, of the residual one, of any with equal weights."""


def short(value: float) -> str:
    """Write a number with three digits."""
    return f"{value:.3g}" if math.isfinite(value) else "–"


def percent(value: float) -> str:
    """Write a reduction in percent; an increase is one below zero."""
    return f"{value:.1f} %" if math.isfinite(value) else "–"


def percents(values: Iterable[float]) -> str:
    """Write several reductions."""
    return listed([percent(value) for value in values])


def among(sizes: list[int]) -> str:
    """Write at which K something holds."""
    return f"K = {listed([str(size) for size in sizes])}" if sizes else "no K"


def verdict(paper: Paper, numbers: Numbers) -> list[str]:
    """Say what of the paper's claims was found, and what goes beyond it."""
    return [
        advantage(paper),
        rivals(paper, numbers, "regret", "cumulative dynamic regret"),
        rivals(paper, numbers, "variance", "mean variance over all rounds"),
        rivals(paper, numbers, "late", f"mean variance of the last {paper.late} rounds"),
        power(paper, numbers),
        growth(paper, numbers),
        sensitivity(paper, numbers),
        static(paper, numbers),
        last_norm(paper, numbers),
        to_optimum(paper, numbers),
        residual(paper, numbers),
        equal(paper, numbers),
    ]


def advantage(paper: Paper) -> str:
    """Say which rules know beforehand what others have to find out."""
    told = listed([each.title for each in paper.contenders.values() if each.told])
    return (
        f"{told} are told how large all clients’ first feedback is, as their authors assume: an advantage over the others, which "
        f"learn it from their first cohort. Its size is far from everyone’s where few clients have most of the weight."
    )


def rivals(paper: Paper, numbers: Numbers, measure: str, name: str) -> str:
    """Say which baselines the paper's sampler beats in `measure`, and at which K it does not."""
    own, beaten, ahead = paper.own, [], []
    for rival in of_role(paper, "baseline"):
        pairs = {k: (numbers.get(rival.name, k, measure), numbers.get(own.name, k, measure)) for k in paper.sizes}
        lost = [k for k, (theirs, ours) in pairs.items() if not theirs > ours]
        values = listed([f"{short(pairs[k][0])} against {short(pairs[k][1])}" for k in lost]) if lost else ""
        if lost:
            ahead.append(f"{rival.title} is as low or lower at {among(lost)} ({values})")
        else:
            beaten.append(rival.title)
    if not ahead:
        return f"In {name}, {own.title} is below every baseline at every K: the paper’s claim holds."
    below = f"below {listed(beaten)}" if beaten else "below no baseline"
    return f"In {name}, {own.title} is {below} at every K; {'; '.join(ahead)}."


def power(paper: Paper, numbers: Numbers) -> str:
    """Compare the power of K that the paper's sampler follows with the paper's bound."""
    slope, title = numbers.slope(paper.own.name, paper.sizes), paper.own.title
    found = f"{title}’s regret falls like K^{slope:.2f}, the paper’s bound like K^{paper.exponent:.2f}"
    if slope < paper.exponent:
        return f"{found}: it falls faster, which the bound allows but does not explain."
    return f"{found}: it falls no faster than the bound."


def growth(paper: Paper, numbers: Numbers) -> str:
    """Say whether the baselines' regret grows with K, as the paper says."""
    slopes = {each.title: numbers.slope(each.name, paper.sizes) for each in of_role(paper, "baseline")}
    slopes = {title: slope for title, slope in slopes.items() if math.isfinite(slope)}
    rising = [title for title, slope in slopes.items() if slope > 0]
    found = listed([f"{title} K^{slope:.2f}" for title, slope in slopes.items()])
    outcome = f"that of {listed(rising)} does" if rising else "it falls for each of them"
    return f"The paper says that the regret of baselines grows with K; here {outcome}: {found}."


def sensitivity(paper: Paper, numbers: Numbers) -> str:
    """Say how much regret and variance change with the scale of gamma."""
    variants = [paper.own, *of_role(paper, "sensitivity")]
    size = next(k for k in paper.sizes if all(k in each.sizes for each in variants))
    spans = []
    for measure in ("regret", "variance"):
        values = {each.title: numbers.get(each.name, size, measure) for each in variants}
        low, high = (end(values, key=values.__getitem__) for end in (min, max))
        spans.append(f"{measure} is between {short(values[low])} ({low}) and {short(values[high])} ({high})")
    return f"With other γ at K = {size}, {listed(spans)}; the paper says that it changes little."


def static(paper: Paper, numbers: Numbers) -> str:
    """Say whether probabilities that never change already do better than the paper's sampler."""
    saved = saving(paper, numbers, "size")
    below = [k for k, value in saved.items() if value > 0]
    return (
        f"Probabilities proportional to λ that never change have a lower mean variance than {paper.own.title} at {among(below)}: "
        f"{percents(saved.values())} lower at {among(paper.sizes)}."
    )


def last_norm(paper: Paper, numbers: Numbers) -> str:
    """Hold last norm to its bar against the paper's sampler."""
    return below(paper, numbers, "last-norm", LOWER, "Last norm")


def to_optimum(paper: Paper, numbers: Numbers) -> str:
    """Hold last norm to its bar against the optimum, in both senses."""
    own = [100 * (numbers.get("last-norm", k, "to_best") - 1) for k in paper.sizes]
    other = [-numbers.reduction("last-norm", "optimal", k, "variance") for k in paper.sizes]
    return (
        f"Last norm is {percents(own)} above the least that full information allows along its own trajectory, and "
        f"{percents(other)} above the run of the optimum itself: the bar of {NEAR:g} % is {met(value <= NEAR for value in own)} "
        f"by the first and {met(value <= NEAR for value in other)} by the second."
    )


def residual(paper: Paper, numbers: Numbers) -> str:
    """Hold the residual sampler to its bar."""
    what = "The residual sampler, FedVARP’s estimator with adaptive probabilities and a vector kept for each client,"
    return below(paper, numbers, "residual", RESIDUAL, what)


def below(paper: Paper, numbers: Numbers, name: str, bar: float, what: str) -> str:
    """Say how far a sampler's variance is below that of the paper's, and whether that is at least `bar` percent at every K."""
    saved = saving(paper, numbers, name).values()
    return (
        f"{what} has a mean variance {percents(saved)} below {paper.own.title} at {among(paper.sizes)}: the bar of {bar:g} % at "
        f"every K is {met(value >= bar for value in saved)}."
    )


def equal(paper: Paper, numbers: Numbers) -> str:
    """Say what is left to gain where all clients have the same weight."""
    best, memory = (saving(paper, numbers, name, "uniform") for name in ("optimal", "residual"))
    enough = [k for k, value in best.items() if value >= GAIN]
    return (
        f"With equal weights λ = 1/N the optimum without memory is {percents(best.values())} below {paper.own.title} at "
        f"{among(paper.sizes)}, so that a gain of {GAIN:g} % is within a memoryless sampler’s reach at {among(enough)}; the "
        f"residual sampler is {percents(memory.values())} below."
    )


def case_study() -> list[str]:
    """Say what figure 1 shows, in numbers, and where they differ from the paper's."""
    alone = case.independent(case.INDEPENDENT, case.VECTORS)
    again = case.replacement(case.REPLACEMENT, case.BUDGET, case.VECTORS)
    whole = case.everyone(case.REPLACEMENT, case.VECTORS)
    squared = float(((whole - case.VECTORS.sum(axis=0)) ** 2).sum())
    three, one = case.of_size(alone, 3), case.of_size(alone, 1)
    return [
        f"Example 3.2, by enumeration: independent draws with p = (1/4, 3/4, 1) have variance "
        f"{short(case.variance(alone))} and take three clients with probability {three} and one with {one}; two draws with "
        f"replacement, q = (0.1, 0.3, 0.6), have variance {short(case.variance(again))}. The printed (1, 3, 6) are lengths, not "
        f"their squares.",
        f"There, all three clients, each drawn once with q, give ({whole[0]:.1f}, {whole[1]:.1f}), at a distance of "
        f"{short(squared**0.5)} from the sum; the paper prints (6.4, 5.9), and 0.6 as the squared distance.",
    ]


def saving(paper: Paper, numbers: Numbers, name: str, weights: str = "size") -> dict[int, float]:
    """Return by how much percent a sampler's mean variance is below that of the paper's, for each K."""
    return {k: numbers.reduction(name, paper.own.name, k, "variance", weights) for k in paper.sizes}


def of_role(paper: Paper, role: str) -> list[Contender]:
    """Return the contenders with a role."""
    return [contender for contender in paper.contenders.values() if contender.role == role]


def met(holds: Iterable[bool]) -> str:
    """Say whether a bar is met at every K."""
    return "met" if all(holds) else "not met"
