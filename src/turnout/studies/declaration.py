"""The declaration of a study: what is played, and what is asked of the runs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from turnout.accounting.prices import Price
from turnout.core.errors import UserError, unknown
from turnout.core.records import Index, Positive, config
from turnout.studies.exhibits import Exhibits
from turnout.studies.figures import Figure
from turnout.studies.goals import Goal
from turnout.studies.sources import Source

Seeds = Index | list[Index] | str


@config
class Reporting:
    """The seeds of the runs that are reported, and whether there are pictures.

    Args:
        seeds: A list, a range such as "1000-1100", or the number of seeds: the first ones on which no setting is chosen.
        pictures: Whether the figures are drawn as SVG, PNG and PDF.
    """

    seeds: Seeds = 1
    pictures: bool = False


@config
class Tuning:
    """Settings are chosen on seeds of their own, for each pair of a goal and a price.

    Args:
        seeds: A list, a range such as "0-10", or the number of seeds, from 0 on.
        goal: Name of the goal to which costs are compared, or names; default: the first one.
        price: Name of the price of these costs, or names; default: the first one.
    """

    seeds: Seeds
    goal: str | list[str] | None = None
    price: str | list[str] | None = None


@config
class Claim:
    """A method costs at most `at_most` times as much as its rival, in the median over the seeds of each problem.

    Args:
        method: Name of the method.
        rival: Name of the method that it is compared with.
        at_most: Bound on the ratio of their median costs.
        goal: Name of the goal; default: the first one.
        price: Name of the price; default: the first one.
        problems: Names of the problems; default: all that both play on and the goal is about.
    """

    method: str
    rival: str
    at_most: Positive = 1.0
    goal: str | None = None
    price: str | None = None
    problems: list[str] | None = None


@dataclass(frozen=True)
class Method:
    """A method: what it is called, and the problems that it plays on."""

    title: str
    problems: tuple[str, ...]


Findings = Callable[[Any], list[str]]
"""Takes a study that was played, and says in sentences what was found."""


@dataclass(frozen=True)
class Declaration:
    """A study as it is declared.

    Args:
        source: Its tables.
        title: Its title.
        seeds: The seeds of the reported runs.
        tuned_on: The seeds on which settings are chosen; none where all settings are reported.
        own_seeds: Such seeds of single methods and problems, by ("methods", name, "seeds") and the like.
        problems: The title of each problem.
        split_by_seed: The problems that are split anew for each seed.
        methods: The methods by name.
        goals: The goals by name.
        prices: The prices by name.
        claims: The claims.
        tuning: The names of each goal and price by which settings are chosen.
        findings: What says in sentences what was found, if the study has it.
        exhibits: What makes its own tables and charts, if the study has it.
        figures: The figures; none where they are the default ones.
        pictures: Whether its figures are drawn as files, as `turnout figures` draws them.
    """

    source: Source
    title: str
    seeds: tuple[int, ...]
    tuned_on: tuple[int, ...]
    own_seeds: dict[tuple[str, str, str], tuple[int, ...]]
    problems: dict[str, str]
    split_by_seed: frozenset[str]
    methods: dict[str, Method]
    goals: dict[str, Goal]
    prices: dict[str, Price]
    claims: tuple[Claim, ...]
    tuning: tuple[tuple[str, str], ...]
    findings: Findings | None = None
    exhibits: Exhibits | None = None
    figures: tuple[Figure, ...] = ()
    pictures: bool = False

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The problems and methods that play, in the order of the problems."""
        return [
            (problem, name) for problem in self.problems for name, method in self.methods.items() if problem in method.problems
        ]

    def part(self, problems: list[str] | None, methods: list[str] | None, seeds: int | None) -> "Declaration":
        """Return the part of the study with these problems and methods, and at most so many reported seeds of each setting."""
        for what, names, known in (("problem", problems, self.problems), ("method", methods, self.methods)):
            for name in names or ():
                if name not in known:
                    raise unknown(what, name, known)
        if seeds is not None and (not isinstance(seeds, int) or seeds < 1):
            raise UserError(f"seeds is a number of seeds of at least 1, not {seeds!r}")
        played = {name: title for name, title in self.problems.items() if problems is None or name in problems}
        mine = {
            name: replace(method, problems=tuple(problem for problem in method.problems if problem in played))
            for name, method in self.methods.items()
            if methods is None or name in methods
        }
        return replace(
            self,
            problems=played,
            methods=mine,
            seeds=self.seeds[:seeds],
            own_seeds={place: own[:seeds] if place[2] == "seeds" else own for place, own in self.own_seeds.items()},
            claims=tuple(claim for claim in self.claims if claim.method in mine and claim.rival in mine),
        )

    def seeds_of(self, problem: str, method: str, purpose: str) -> tuple[int, ...]:
        """Return the seeds of a method on a problem for a purpose: the method's own, or the problem's, or those of the study."""
        key = "seeds" if purpose == "report" else "tuning_seeds"
        common = self.seeds if purpose == "report" else self.tuned_on
        places = (("methods", method, key), ("problems", problem, key))
        return next((self.own_seeds[place] for place in places if place in self.own_seeds), common)
