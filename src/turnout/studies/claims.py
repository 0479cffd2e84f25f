"""Claims, and what the runs say about them."""

from dataclasses import dataclass
from typing import Literal

from turnout.report.format import number
from turnout.studies.statistics import FEWEST, Ratio

Answer = Literal["holds", "does not hold", "is not decided"]


@dataclass(frozen=True)
class Verdict:
    """What the runs on one problem say about a claim.

    Args:
        claim: The claim in words.
        problem: The problem.
        at_most: The bound on the ratio of the costs that is claimed.
        answer: Whether it holds.
        ratio: The ratio of the median costs, with its interval.
        reason: Why it is not decided, if it is not.
    """

    claim: str
    problem: str
    at_most: float
    answer: Answer
    ratio: Ratio
    reason: str = ""

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.claim}, on {self.problem}: {self.answer}{reason} (ratio {ratio_words(self.ratio)})"


def judged(claim: str, problem: str, ratio: Ratio, at_most: float) -> Verdict:
    """Return the verdict on a `ratio` of costs that is claimed to be `at_most` a number."""
    low, high = ratio.interval
    if not ratio.decided:
        return Verdict(claim, problem, at_most, "is not decided", ratio, too_few(ratio))
    if ratio.value != ratio.value:
        reason = "neither of them reaches the goal, or the rival comes to no more than 0"
        return Verdict(claim, problem, at_most, "is not decided", ratio, reason)
    answer: Answer = "holds" if high <= at_most else "does not hold" if low > at_most else "is not decided"
    reason = "the interval includes the bound" if answer == "is not decided" else ""
    return Verdict(claim, problem, at_most, answer, ratio, reason)


def too_few(ratio: Ratio) -> str:
    """Say that there are too few seeds to decide anything."""
    return f"{ratio.seeds} {'seed is' if ratio.seeds == 1 else 'seeds are'} fewer than {FEWEST}"


def ratio_words(ratio: Ratio) -> str:
    """Write a ratio with its interval, such as "0.42 [0.31, 0.58]"."""
    if ratio.value != ratio.value:
        return "not known"
    low, high = ratio.interval
    return f"{number(ratio.value)} [{number(low)}, {number(high)}]" if ratio.decided else number(ratio.value)
