"""The declaration of a study: what is played, and what is asked of the runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from turnout.accounting.prices import Exchanges, Price
from turnout.core.errors import UserError, unknown
from turnout.core.records import Index, Positive, config
from turnout.experiment.config import Reader
from turnout.studies.figures import Figure, read_figures
from turnout.studies.goals import Goal
from turnout.studies.sources import Place, Source

TABLES = ("title", "seeds", "tuning", "run", "problems", "methods", "grid", "goals", "prices", "claims", "figures")
PROBLEM = ("title", "problem", "split", "sampler", "run", "target", "faults", "privacy")
"""The keys of a problem."""
OVERRIDES = ("problem", "split", "sampler", "algorithm", "run", "target", "faults", "privacy", "grid", "scale")
"""The keys that a method may have for one of its problems."""
METHOD = ("title", "problems", "on", *OVERRIDES)
"""The keys of a method."""


@config
class Reporting:
    """The seeds of the runs that are reported.

    Args:
        seeds: A list, or the number of seeds, which are the first ones on which no setting is chosen.
    """

    seeds: Index | list[Index] = 1


@config
class Tuning:
    """Settings are chosen on seeds of their own.

    Args:
        seeds: A list, or the number of seeds, from 0 on.
        goal: Name of the goal to which costs are compared; default: the first one.
        price: Name of the price of these costs; default: the first one.
    """

    seeds: Index | list[Index]
    goal: str | None = None
    price: str | None = None


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
    """A method: what it is called, the problems that it plays on, and seeds of its own, if it has these."""

    title: str
    problems: tuple[str, ...]
    seeds: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Declaration:
    """A study as it is declared.

    Args:
        source: Its tables.
        title: Its title.
        seeds: The seeds of the reported runs.
        tuned_on: The seeds on which settings are chosen; none where all settings are reported.
        problems: The title of each problem.
        methods: The methods by name.
        goals: The goals by name.
        prices: The prices by name.
        claims: The claims.
        tuning: The name of the goal and of the price by which settings are chosen.
        figures: The figures; none where they are the default ones.
    """

    source: Source
    title: str
    seeds: tuple[int, ...]
    tuned_on: tuple[int, ...]
    problems: dict[str, str]
    methods: dict[str, Method]
    goals: dict[str, Goal]
    prices: dict[str, Price]
    claims: tuple[Claim, ...]
    tuning: tuple[str, str] | None
    figures: tuple[Figure, ...] = ()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The problems and methods that play, in the order of the problems."""
        return [
            (problem, name) for problem in self.problems for name, method in self.methods.items() if problem in method.problems
        ]


class DeclarationReader(Reader):
    """Reads the tables of a study but for those of its runs."""

    def __init__(self, source: Source):
        super().__init__(source.label, "", source.tables)
        self.origin = source

    def error(self, path: Place, sentence: str) -> UserError:
        return self.origin.error(path, sentence)

    def declaration(self) -> Declaration:
        """Read the declaration."""
        self.check_keys((), TABLES, "table")
        problems, methods = self.table(("problems",), needed=True), self.table(("methods",), needed=True)
        self.check_grid(())
        for name in problems:
            self.check_keys(("problems", name), PROBLEM, "key")
        goals = {name: self.goal(name, problems) for name in self.table(("goals",))}
        prices = {name: self.price(name) for name in self.table(("prices",))} or {"exchanges": Exchanges()}
        tuning = self.plain(Tuning, ("tuning",), self.tables["tuning"]) if "tuning" in self.tables else None
        tuned_on = () if tuning is None else self.seeds(tuning.seeds, ("tuning", "seeds"), ())
        top = self.plain(Reporting, (), {key: self.tables[key] for key in ("seeds",) if key in self.tables})
        declaration = Declaration(
            source=self.origin,
            title=str(self.tables.get("title", self.source)),
            seeds=self.seeds(top.seeds, ("seeds",), tuned_on),
            tuned_on=tuned_on,
            problems={name: str(content.get("title", name)) for name, content in problems.items()},
            methods={name: self.method(name, problems) for name in methods},
            goals=goals,
            prices=prices,
            claims=self.claims(methods, problems, goals, prices),
            tuning=tuning and self.asked(tuning, ("tuning",), goals, prices),
        )
        return replace(declaration, figures=read_figures(self, declaration))

    def table(self, path: Place, needed: bool = False) -> dict:
        """Return the table at `path`, of which each value is a table; an empty one where there is none."""
        content = self.at(path)
        if needed and not content:
            raise self.error((), f"table [{path[0]}] is missing: add [{path[0]}.NAME]")
        if not isinstance(content, dict | None) or any(not isinstance(part, dict) for part in (content or {}).values()):
            raise self.error(path, f"[{path[0]}] holds tables: write [{path[0]}.NAME]")
        for name in content or {}:
            if not name.isprintable() or not name.strip() or "/" in name or name.startswith("."):
                raise self.error((*path, name), f"a name is also that of a file, so it cannot be {name!r}")
        return content or {}

    def check_keys(self, path: Place, known: tuple[str, ...], what: str) -> None:
        """Raise `UserError` for a key at `path` that is not `known`."""
        for key in self.at(path) or {}:
            self.named(key, known, (*path, key), what)

    def named(self, name: str, known, path: Place, what: str) -> str:
        """Return `name`; `UserError` where it is not among the `known` ones."""
        if name not in known:
            raise self.error(path, str(unknown(what, name, known)))
        return name

    def check_grid(self, path: Place) -> None:
        """Raise `UserError` where the grid or the scale at `path` is no table."""
        for key in ("grid", "scale"):
            if not isinstance(self.at((*path, key)), dict | None):
                raise self.error((*path, key), f'{key} is a table: write {key} = {{ "algorithm.lr" = ... }}')

    def method(self, name: str, problems: dict) -> Method:
        """Read a method, but for what it plays."""
        path, content = ("methods", name), self.tables["methods"][name]
        self.check_keys(path, METHOD, "key")
        for place in [path, *((*path, "on", problem) for problem in self.table((*path, "on")))]:
            self.check_grid(place)
        played = content.get("problems", list(problems))
        if not isinstance(played, list) or not played:
            raise self.error((*path, "problems"), "problems is a list of names: leave it out for all of them")
        for problem in (*played, *self.table((*path, "on"))):
            self.named(problem, problems, (*path, "problems" if problem in played else "on"), "problem")
        for problem in content.get("on", {}):
            self.check_keys((*path, "on", problem), OVERRIDES, "key")
        seeds = self.origin.seeds.get(name)
        return Method(str(content.get("title", name)), tuple(played), None if seeds is None else tuple(seeds))

    def goal(self, name: str, problems: Mapping) -> Goal:
        """Read a goal."""
        goal = self.plain(Goal, ("goals", name), self.tables["goals"][name])
        for problem in goal.problems or ():
            self.named(problem, problems, ("goals", name, "problems"), "problem")
        return goal

    def price(self, name: str) -> Price:
        """Read a price."""
        self.folder = self.origin.folder(("prices", name))
        price: Any = self.kind("price", ("prices", name))
        return price

    def seeds(self, given: int | list[int], path: Place, taken: tuple[int, ...]) -> tuple[int, ...]:
        """Return seeds, none of which is `taken`: those in a list, or the first so many."""
        if isinstance(given, int):
            first = max(taken, default=-1) + 1
            given = list(range(first, first + given))
        if not given or len({*given}) < len(given):
            raise self.error(path, "seeds are a number of at least 1 or a list of different ones")
        for seed in given:
            if seed in taken:
                raise self.error(path, f"settings are chosen on seed {seed} already: report other seeds than those of [tuning]")
        return tuple(given)

    def claims(self, methods: dict, problems: dict, goals: dict, prices: dict) -> tuple[Claim, ...]:
        """Read the claims."""
        content = self.tables.get("claims", [])
        if not isinstance(content, list):
            raise self.error(("claims",), "claims are a list: write [[claims]] with double brackets")
        return tuple(self.claim(k, each, methods, problems, goals, prices) for k, each in enumerate(content))

    def claim(self, k: int, content: Any, methods: dict, problems: dict, goals: dict, prices: dict) -> Claim:
        """Read the k-th claim; `UserError` where it is about something that is not in the study."""
        path = ("claims", k)
        claim = self.plain(Claim, path, content)
        for key in ("method", "rival"):
            self.named(getattr(claim, key), methods, (*path, key), "method")
        for problem in claim.problems or ():
            self.named(problem, problems, (*path, "problems"), "problem")
        self.asked(claim, path, goals, prices)
        return claim

    def asked(self, about: Tuning | Claim, path: Place, goals: dict, prices: dict) -> tuple[str, str]:
        """Return the names of the goal and of the price that something is about; the first ones by default."""
        if not goals:
            raise self.error(path, "there is no goal: add [goals.NAME] with a metric and below or share")
        goal = self.named(about.goal or next(iter(goals)), goals, (*path, "goal"), "goal")
        return goal, self.named(about.price or next(iter(prices)), prices, (*path, "price"), "price")
