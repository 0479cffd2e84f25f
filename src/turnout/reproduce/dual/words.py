"""What a comparison of dual and primal methods found, in sentences made from its numbers."""

import math

from turnout.report.format import count, human_bytes, listed
from turnout.reproduce.dual.paper import Paper, Setting, Setup
from turnout.reproduce.dual.tables import COSTS, Numbers

LESS = 2.0
"""By what factor a method that goes beyond the paper should send fewer bytes than FedDCD."""

ALIKE = 0.5
"""Points of accuracy that do not count as a difference."""


def verdict(paper: Paper, numbers: Numbers, sets: list[str]) -> list[str]:
    """Say what of the paper's claims was found on `sets`."""
    first, *_ = paper.settings.values()
    counted = [paper.settings[name] for name in sets if name not in paper.accuracy.sets]
    tested = [paper.settings[name] for name in sets if name in paper.accuracy.sets]
    main = [say(paper, numbers, first) for say in MAIN] if first.name in sets else []
    fewest = [winners(paper, numbers, setting) for setting in counted]
    more = filter(None, (beyond(paper, numbers, setting) for setting in counted))
    return [*main, *more, *fewest, *(accuracy(paper, numbers, setting) for setting in tested)]


def feddcd(paper: Paper, numbers: Numbers, setting: Setting) -> str:
    """Hold FedDCD to its bar against the released rounds."""
    setup = paper.setups[0]
    return f"On {setting.title}, at τ = {setup.tau}, {reached(paper, numbers, setting, 'feddcd')}."


def accfeddcd(paper: Paper, numbers: Numbers, setting: Setting) -> str:
    """Count AccFedDCD in rounds and in exchanges."""
    setup = paper.setups[0]
    plain, fast = (numbers.cost(setting.name, name, setup, "exchanges") for name in ("feddcd", "accfeddcd"))
    better = "is the better one" if fast < plain else "is not better"
    return (
        f"There {reached(paper, numbers, setting, 'accfeddcd')}. Each of its rounds is two exchanges: in all it needs "
        f"{count(fast)} exchanges and FedDCD {count(plain)}, so that counted in exchanges AccFedDCD {better}."
    )


def constants(paper: Paper, numbers: Numbers, setting: Setting) -> str:
    """Say what the paper's own constants make of both."""
    plain, fast = (both(numbers, setting.name, name, paper.setups[0]) for name in ("feddcd-paper", "accfeddcd-paper"))
    return (
        "With the constants that the paper writes, lr = 1, r = (τ − 1)/(N − 1) and the bound on L_i for β, FedDCD needs "
        f"{plain} and AccFedDCD {fast}; the released programs take lr = 0.99, r = τ/N and β = 1."
    )


def delivery(paper: Paper, numbers: Numbers, setting: Setting) -> str:
    """Compare both ways of delivery."""
    spent = {
        what: [numbers.cost(setting.name, name, paper.setups[0], what) for name in ("feddcd", "feddcd-eager")] for what in COSTS
    }
    lazy, eager = spent["exchanges"]
    sent = "the same bytes" if spent["bytes"][0] == spent["bytes"][1] else listed([size(many) for many in spent["bytes"]])
    return (
        f"Counted above is lazy delivery. Eager delivery, where the mean comes in an exchange of its own, takes FedDCD "
        f"{count(eager)} exchanges in the place of {count(lazy)}, and {sent}."
    )


def scaffold(paper: Paper, numbers: Numbers, setting: Setting) -> str:
    """Say what the released SCAFFOLD is, and what the true one costs."""
    setup = paper.setups[0]
    released = [paper.released.rounds(setting.name, name, setup) for name in ("scaffold", "fedavg")]
    true, average = (both(numbers, setting.name, name, setup) for name in ("scaffold", "fedavg"))
    return (
        f"As released, SCAFFOLD is FedAvg in disguise on this model: no variate ever travels, so that its {count(released[0])} "
        f"rounds are FedAvg’s {count(released[1])} up to noise. The true one sends two vectors each way and needs {true}; FedAvg "
        f"needs {average}."
    )


def beyond(paper: Paper, numbers: Numbers, setting: Setting) -> str:
    """Hold what goes beyond the paper to its bar in bytes, every method with the cohorts that suit it best."""
    first = paper.setups[0]
    setups = [setup for setup in paper.setups if setup.below == first.below]

    def least(names: list[str]) -> tuple[float, int]:
        costs = [(spent(numbers, setting, name, setup), setup.tau) for name in names for setup in setups]
        return min((cost for cost in costs if not math.isnan(cost[0])), default=(math.nan, first.tau))

    better = [name for name in setting.contenders if paper.contenders[name].role == "beyond"]
    own, tau = least([name for name in setting.contenders if name not in better])
    plain, sentences = spent(numbers, setting, "feddcd", first), []
    for name in better:
        mine, cohort = least([name])
        met = "met" if LESS * mine <= plain and mine < own else "not met"
        sentences.append(
            f"{paper.contenders[name].title} goes beyond the paper: to a gap of {first.below:g} on {setting.title} it sends "
            f"{size(mine)} with cohorts of {cohort}, FedDCD {size(plain)} with cohorts of {first.tau}, and the cheapest of all "
            f"other methods {size(own)} with cohorts of {tau}: the bar of a factor {LESS:g} below FedDCD and of fewer bytes than "
            f"all is {met}."
        )
    return " ".join(sentences)


MAIN = (feddcd, accfeddcd, constants, delivery, scaffold)
"""The sentences on the first set."""


def winners(paper: Paper, numbers: Numbers, setting: Setting) -> str:
    """Say in how many setups one of the paper's methods is cheaper than all baselines, by each of the costs."""
    setups = [setup for setup in paper.setups if setup.tau in setting.rounds]
    won = {what: [s for s in setups if dual_wins(paper, numbers, setting, s, what)] for what in COSTS}
    found = listed([f"{len(won[what])} by {what}" for what in COSTS])
    return (
        f"{setting.title}: one of FedDCD and AccFedDCD is cheaper than FedAvg, FedProx and SCAFFOLD in {found} of "
        f"{len(setups)} setups; the paper says in most, by rounds."
    )


def dual_wins(paper: Paper, numbers: Numbers, setting: Setting, setup: Setup, what: str) -> bool:
    """Whether the cheapest of the paper's methods is cheaper than the cheapest baseline."""
    dual, primal = (
        min(numbers.cost(setting.name, name, setup, what) for name in paper.of_role(role)) for role in ("released", "baseline")
    )
    return dual < primal


def accuracy(paper: Paper, numbers: Numbers, setting: Setting) -> str:
    """Compare the accuracies of dual methods with SCAFFOLD's."""
    mine = {name: numbers.accuracy(setting.name, name) for name in ("feddcd", "accfeddcd", "scaffold")}
    holds = all(mine[name] >= mine["scaffold"] - ALIKE for name in paper.of_role("released"))
    found = listed([f"{value:.2f} % for {paper.contenders[name].title}" for name, value in mine.items()])
    return (
        f"{setting.title}: the best test accuracy within {paper.accuracy.rounds} rounds is {found}; the paper’s claim that its "
        f"methods get as far as SCAFFOLD {'holds' if holds else 'does not hold'} within {ALIKE:g} points."
    )


def reached(paper: Paper, numbers: Numbers, setting: Setting, name: str) -> str:
    """Say in how many rounds a released method gets to the first setup's gap, and whether that is within the bar."""
    setup, released = paper.setups[0], paper.released.rounds(setting.name, name, paper.setups[0])
    mine, ends = numbers.cost(setting.name, name, setup), (numbers.cost(setting.name, name, setup, e) for e in ("fewest", "most"))
    met = "met" if abs(mine - released) <= paper.bar * released else "not met"
    return (
        f"{paper.contenders[name].title} as released reaches a gap of {setup.below:g} in {count(mine)} rounds "
        f"({' to '.join(map(count, ends))} over the seeds; released: {count(released)}; "
        f"the bar of {100 * paper.bar:g} % is {met})"
    )


def spent(numbers: Numbers, setting: Setting, name: str, setup: Setup) -> float:
    """Return the bytes to the gap of `setup`."""
    return numbers.cost(setting.name, name, setup, "bytes")


def both(numbers: Numbers, name: str, contender: str, setup: Setup) -> str:
    """Write rounds and bytes, such as "28 rounds and 52.7 MB"."""
    rounds, sent = (numbers.cost(name, contender, setup, what) for what in ("rounds", "bytes"))
    return "more rounds than were played" if rounds == math.inf else f"{count(rounds)} rounds and {size(sent)}"


def size(value: float) -> str:
    """Write a median number of bytes."""
    return human_bytes(value) if math.isfinite(value) else count(value)
