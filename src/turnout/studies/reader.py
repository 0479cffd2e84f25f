"""Reading the declaration of a study, with the place of every mistake in it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from turnout.accounting.prices import Exchanges, Price
from turnout.core.errors import UserError, unknown
from turnout.core.named_class import named_function
from turnout.experiment.config import Reader
from turnout.experiment.toml_file import flatten
from turnout.studies.declaration import Claim, Declaration, Method, Reporting, Tuning
from turnout.studies.figures import read_figures
from turnout.studies.goals import Goal
from turnout.studies.sources import Place, Source

TABLES = (
    "title", "duration", "seeds", "tuning", "run", "problems", "methods", "grid",
    "goals", "prices", "claims", "figures", "pictures", "findings", "exhibits",
)  # fmt: skip
SHARED = (
    "problem", "split", "sampler", "run", "target", "exchange", "faults", "devices", "hubs", "groups", "privacy", "grid",
    "scale",
)  # fmt: skip
PROBLEM = ("title", "methods", "seeds", "tuning_seeds", "split_by_seed", *SHARED)
"""The keys of a problem."""
OVERRIDES = ("algorithm", *SHARED)
"""The keys that a method may have for one of its problems."""
METHOD = ("title", "problems", "on", "seeds", "tuning_seeds", *OVERRIDES)
"""The keys of a method."""


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
            self.check_grid(("problems", name))
        goals = {name: self.goal(name, problems) for name in self.table(("goals",))}
        prices = {name: self.price(name) for name in self.table(("prices",))} or {"exchanges": Exchanges()}
        tuning = self.plain(Tuning, ("tuning",), self.tables["tuning"]) if "tuning" in self.tables else None
        tuned_on = () if tuning is None else self.seeds(tuning.seeds, ("tuning", "seeds"))
        top = self.plain(Reporting, (), {key: self.tables[key] for key in ("seeds", "pictures") if key in self.tables})
        declaration = Declaration(
            source=self.origin,
            title=str(self.tables.get("title", self.source)),
            seeds=self.seeds(top.seeds, ("seeds",), tuned_on),
            tuned_on=tuned_on,
            own_seeds=self.own_seeds(tuned_on),
            problems={name: str(content.get("title", name)) for name, content in problems.items()},
            split_by_seed=frozenset(name for name in problems if self.splits_by_seed(name)),
            methods={name: self.method(name, methods, problems) for name in methods},
            goals=goals,
            prices=prices,
            claims=self.claims(methods, problems, goals, prices),
            tuning=() if tuning is None else self.asked(tuning, ("tuning",), goals, prices),
            findings=self.function("findings"),
            exhibits=self.function("exhibits"),
            pictures=top.pictures,
        )
        return replace(declaration, figures=read_figures(self, declaration))

    def table(self, path: Place, needed: bool = False) -> dict:
        """Return the table at `path`, of which each value is a table; an empty one where there is none."""
        content = self.at(path)
        if needed and not content:
            raise self.error((), f"table [{path[0]}] is missing: add [{path[0]}.NAME]")
        if not isinstance(content, dict | None) or any(not isinstance(part, dict | Price) for part in (content or {}).values()):
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
        """Raise `UserError` where the grid at `path` is neither a table nor a list of them, or the scale is no table."""
        grid = self.at((*path, "grid"))
        several = grid if isinstance(grid, list) and grid else [grid]
        for key, tables in (("grid", several), ("scale", [self.at((*path, "scale"))])):
            if not all(isinstance(table, dict | None) for table in tables):
                raise self.error((*path, key), f'{key} is a table: write {key} = {{ "algorithm.lr" = ... }}')

    def method(self, name: str, methods: dict, problems: dict) -> Method:
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
        there = [problem for problem in problems if name in self.playing(problem, methods)]
        for problem in problems if "problems" in content else ():
            if self.at(("problems", problem, "methods")) is not None and (problem in played) != (problem in there):
                raise self.error(
                    (*path, "problems"),
                    f"this list and the methods of [problems.{problem}] do not agree on whether {name} plays there: drop one",
                )
        played = [problem for problem in played if problem in there]
        return Method(str(content.get("title", name)), tuple(played))

    def playing(self, problem: str, methods: dict) -> list[str]:
        """Return the names of the methods that may play on a problem: by default all."""
        path = ("problems", problem, "methods")
        names = self.at(path)
        if names is None:
            return list(methods)
        if not isinstance(names, list) or not names:
            raise self.error(path, "methods is a list of names: leave it out for all of them")
        return [self.named(name, methods, path, "method") for name in names]

    def splits_by_seed(self, problem: str) -> bool:
        """Return whether the seed of a run is that of the problem's split as well."""
        path = ("problems", problem, "split_by_seed")
        wanted = self.at(path) or False
        if not isinstance(wanted, bool):
            raise self.error(path, f"split_by_seed is true or false, not {wanted!r}")
        if wanted and "seed" in (self.at(("problems", problem, "split")) or {}):
            raise self.error(path, "with split_by_seed the seeds of the runs are those of the split: take out split.seed")
        return wanted

    def goal(self, name: str, problems: Mapping) -> Goal:
        """Read a goal."""
        path, content = ("goals", name), self.tables["goals"][name]
        if isinstance(content.get("where"), dict):
            content = {**content, "where": flatten(content["where"])}
        goal = self.plain(Goal, path, content)
        for problem in goal.problems or ():
            self.named(problem, problems, (*path, "problems"), "problem")
        for key in goal.where or {}:
            self.named(key, self.swept_keys(), (*path, "where", *key.split(".")), "swept key")
        return goal

    def swept_keys(self) -> list[str]:
        """Return all keys that are in a grid."""
        places = [(), *((part, name) for part in ("problems", "methods") for name in self.table((part,)))]
        places += [(*place, "on", problem) for place in places if place for problem in self.table((*place, "on"))]
        grids = [self.at((*place, "grid")) or {} for place in places]
        tables = [table for grid in grids for table in (grid if isinstance(grid, list) else [grid])]
        return list(dict.fromkeys(key for table in tables for key in flatten(table)))

    def price(self, name: str) -> Price:
        """Read a price, which may be an object in Python."""
        content = self.tables["prices"][name]
        if isinstance(content, Price):
            return content
        self.folder = self.origin.folder(("prices", name))
        price: Any = self.kind("price", ("prices", name))
        return price

    def own_seeds(self, tuned_on: tuple[int, ...]) -> dict[tuple[str, str, str], tuple[int, ...]]:
        """Return the seeds of single methods and problems."""
        places = [(part, name) for part in ("methods", "problems") for name in self.table((part,))]
        tuned = {(*place, "tuning_seeds"): () for place in places if "tuning_seeds" in (self.at(place) or {})}
        result = {path: self.seeds(self.seeds_at(path), path) for path in tuned}
        for place in places:
            if "seeds" in (self.at(place) or {}):
                path = (*place, "seeds")
                result[path] = self.seeds(self.seeds_at(path), path, result.get((*place, "tuning_seeds"), tuned_on))
        return result

    def seeds_at(self, path: Place) -> Any:
        """Return the content at `path`, which is of seeds."""
        return self.plain(Reporting, path[:-1], {"seeds": self.at(path)}).seeds

    def seeds(self, given: int | list[int] | str, path: Place, taken: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return seeds, none of which is `taken`: those in a list or in a range, or the first so many."""
        if isinstance(given, str):
            first, dash, last = given.partition("-")
            if not (dash and first.strip().isdigit() and last.strip().isdigit()):
                raise self.error(path, f'seeds {given!r} are no range: write a range such as "1000-1100"')
            given = list(range(int(first), int(last) + 1))
        if isinstance(given, int):
            start = max(taken, default=-1) + 1
            given = list(range(start, start + given))
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

    def asked(self, about: Tuning | Claim, path: Place, goals: dict, prices: dict) -> tuple[tuple[str, str], ...]:
        """Return each pair of the goals and the prices that something is about; the first ones by default."""
        if not goals:
            raise self.error(path, "there is no goal: add [goals.NAME] with a metric and below or share")
        names = []
        for what, given, known in (("goal", about.goal, goals), ("price", about.price, prices)):
            several = given if isinstance(given, list) else [given or next(iter(known))]
            names.append([self.named(name, known, (*path, what), what) for name in several])
        return tuple(product(*names))

    def function(self, key: str) -> Any:
        """Return the function that a key names; None without the key."""
        given: Any = self.tables.get(key)
        if given is None or callable(given):
            return given
        try:
            return named_function(str(given), self.origin.folder((key,)))
        except UserError as error:
            raise self.error((key,), str(error)) from None
