"""What a method plays on a problem: its configuration in every setting of its grid."""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.experiment.config import Reader
from turnout.experiment.experiment import Experiment
from turnout.experiment.toml_file import flatten
from turnout.problems.base import Problem
from turnout.studies.declaration import Declaration
from turnout.studies.sources import Place, Source

Places = list[tuple[dict, Place]]
"""The tables of a study that a configuration is made of, and where they are, the most special first."""


OWN = ("title", "problems", "methods", "on", "grid", "scale", "seeds", "tuning_seeds", "split_by_seed")
"""The keys of methods and problems that are no tables of a configuration."""

CLIENTS = "n"
"""The number of clients, as a constant to scale with: shares of it are rounded, to one client or more."""

Grid = dict[str, tuple[Any, Place]]
"""The values of each swept key, and where they are."""


@dataclass(frozen=True)
class Alternative:
    """A value of a swept key, and what tables show for it."""

    value: Any
    shown: Any


@dataclass(frozen=True)
class Setting:
    """A method on a problem with one value for each swept key.

    Args:
        problem: The problem.
        method: The method.
        values: What tables show for each swept key.
        reader: The reader of its configuration.
    """

    problem: str
    method: str
    values: dict[str, Any]
    reader: "SettingReader"

    @property
    def label(self) -> str:
        """The setting in words, such as "lr = 0.1, steps = 5"; where last words are shared, the whole keys are shown."""
        short = [key.rpartition(".")[2] for key in self.values]
        names = [name if short.count(name) == 1 and name != "kind" else key for name, key in zip(short, self.values, strict=True)]
        return ", ".join(f"{name} = {_words(value)}" for name, value in zip(names, self.values.values(), strict=True))

    def experiment(self) -> Experiment:
        """Return the configuration; numbers that are to be scaled are as they are given."""
        return self.reader.without_shares().experiment(f"{self.method} on {self.problem}")

    def with_split_seed(self, seed: int) -> "Setting":
        """Return the setting with the split of a `seed`."""
        return dataclasses.replace(self, reader=self.reader.with_split_seed(seed))


def settings_of(declaration: Declaration, problem: str, method: str) -> list[Setting]:
    """Return all settings of a method on a problem, in the order of its grid; the last key changes fastest."""
    source = declaration.source
    places = _places(source, problem, method)
    settings = [setting for grid in grids(places) for setting in _settings_in(source, problem, method, places, grid)]
    labels = [setting.label for setting in settings]
    double = next((label for label in labels if labels.count(label) > 1), None)
    if double is not None:
        raise source.error(("methods", method, "grid"), f"two settings on {problem} are called {double!r}: leave one out")
    return settings


def _settings_in(source: Source, problem: str, method: str, places: Places, grid: Grid) -> Iterator[Setting]:
    """Yield the settings in one grid."""
    tables = _tables(source.tables, places)
    scale = {key: unit for part, _ in reversed(places) for key, unit in flatten(part.get("scale", {})).items()}
    alternatives = {key: _alternatives(source, key, values, place) for key, (values, place) in grid.items()}
    where = {key: place for key, (_, place) in grid.items()}
    for chosen in product(*alternatives.values()):
        own = tables
        # A whole part comes before the keys in it.
        for key, one in sorted(zip(grid, chosen, strict=True), key=lambda pair: pair[0].count(".")):
            try:
                own = with_value(own, key.split("."), one.value)
            except UserError as error:
                raise source.error(where[key], str(error)) from None
        reader = SettingReader(source, own, places, where, scale)
        yield Setting(problem, method, {key: one.shown for key, one in zip(grid, chosen, strict=True)}, reader)


def with_value(tables: Any, path: list[str], value: Any) -> Any:
    """Return `tables` with another `value` at `path`; a table is merged into an old one of the same kind."""
    name, *rest = path
    if dataclasses.is_dataclass(tables):
        if not hasattr(tables, name):
            raise UserError(f"{type(tables).__name__} has no field {name!r}")
        old = getattr(tables, name)
        return dataclasses.replace(tables, **{name: with_value(old, rest, value) if rest else value})
    if not isinstance(tables, dict):
        tables = {} if tables is None else {"kind": tables}
    old = tables.get(name)
    return {**tables, name: with_value(old, rest, value) if rest else merged(old, value)}


def merged(old: Any, new: Any) -> Any:
    """Return `new` over `old`: tables are merged key by key unless they are of different kinds."""
    if not isinstance(new, dict):
        return new
    if isinstance(old, str) and "kind" not in new:
        old = {"kind": old}
    if not isinstance(old, dict) or new.get("kind", old.get("kind")) != old.get("kind"):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


class SettingReader(Reader):
    """Reads the configuration of one setting, and finds the place of a mistake in the study.

    Args:
        source: The study.
        tables: The tables of the configuration; parts may be records.
        places: Where these are from, the most special first.
        grid: Where the values of each swept key are.
        scale: The constant of the problem by which the number at a key is multiplied.
    """

    def __init__(self, source: Source, tables: dict, places: Places, grid: dict[str, Place], scale: dict[str, str]):
        super().__init__(source.label, "", tables)
        self.origin, self.places, self.grid, self.scale = source, places, grid, scale

    def error(self, path: Place, sentence: str) -> UserError:
        names = tuple(part for part in path if isinstance(part, str))
        for key in sorted(self.grid, key=len, reverse=True):
            swept = tuple(key.split("."))
            if swept == names[: len(swept)]:
                return self.origin.error(self.grid[key], f"{'.'.join(names)}: {sentence}")
        return self.origin.error(self.place(names), sentence)

    def place(self, path: Place) -> Place:
        """Return the place in the study of the key at `path`: the most special one that has most of it."""
        return max(((*place, *path) for _, place in self.places), key=lambda whole: self.origin.depth(whole) - len(whole))

    def experiment(self, name: str) -> Experiment:
        if self.at(("run", "seed")) is not None:
            raise self.error(("run", "seed"), "the seeds of a study are at its top: write seeds = [0, 1] there")
        for key in ("price", "sweep"):
            if key in self.tables:
                raise self.error((key,), f"{key} is not part of a method: write [prices] or [grid] at the top of the study")
        algorithm = self.tables.get("algorithm")
        if isinstance(algorithm, Algorithm) and "sampler" not in self.tables:
            self.tables = {**self.tables, "sampler": getattr(algorithm, "sampler", "full")}
        return super().experiment(name)

    def kind(self, table: str, path: Place, **parts) -> Any:
        content = self.at(path)
        if isinstance(content, dict | str | None):
            self.folder = self.origin.folder(self.place(path))
            return super().kind(table, path, **parts)
        if table == "algorithm" and isinstance(content, Algorithm):
            return dataclasses.replace(content, **parts) if hasattr(content, "sampler") else content
        return content if not isinstance(content, Problem) else GivenProblem(content)

    def scaled(self, units: dict[str, float]) -> "SettingReader":
        """Return the reader with scaled numbers.

        Args:
            units: The constants of the problem by name.
        """
        tables = self.tables
        for key, unit in self.scale.items():
            path = key.split(".")
            value = self.at(tuple(path))
            if unit not in units:
                raise self.error(tuple(path), f"scale {unit!r} is no constant of this problem: known are {', '.join(units)}")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self.error(tuple(path), f"scale multiplies a number, but {key} is {value!r}: give it one")
            scaled = value * units[unit]
            tables = with_value(tables, path, max(1, round(scaled)) if unit == CLIENTS else scaled)
        return SettingReader(self.origin, tables, self.places, self.grid, {})

    def with_split_seed(self, seed: int) -> "SettingReader":
        """Return the reader with the split of a `seed`."""
        tables = with_value(self.tables, ["split", "seed"], seed)
        return SettingReader(self.origin, tables, self.places, self.grid, self.scale)

    def without_shares(self) -> "SettingReader":
        """Return the reader with one client in the place of each share of the clients."""
        tables = self.tables
        for key in (key for key, unit in self.scale.items() if unit == CLIENTS):
            tables = with_value(tables, key.split("."), 1)
        return SettingReader(self.origin, tables, self.places, self.grid, self.scale)


@dataclass(frozen=True)
class GivenProblem:
    """A problem made in Python, in the place of a `[problem]` table."""

    problem: Problem

    @property
    def precision(self):
        """The precision of a run that does not set one."""
        return self.problem.precision


def _places(source: Source, problem: str, method: str) -> Places:
    """Return the tables that a configuration is made of and where they are, the most special first."""
    places: list[Place] = [("methods", method, "on", problem), ("methods", method), ("problems", problem), ()]
    parts = []
    for place in places:
        part: Any = source.tables
        for name in place:
            part = part.get(name, {})
        parts.append((part, place))
    return parts


def _tables(study: dict, places: Places) -> dict:
    """Return the tables of a configuration, without its grid."""
    tables: dict = {"run": study["run"]} if "run" in study else {}
    for part, _ in reversed(places[:-1]):
        own = {key: value for key, value in part.items() if key not in OWN}
        tables = merged(tables, own)
    return tables


def grids(places: Places) -> list[Grid]:
    """Return the grids at all places: keys of a more special place have the last word, and of several grids each is one more.

    An empty list leaves out a key of a more general place.
    """
    whole: list[Grid] = [{}]
    for part, place in reversed(places):
        given = part.get("grid", {})
        if isinstance(given, list):
            own = [_grid(table, (*place, "grid", k)) for k, table in enumerate(given)]
        else:
            own = [_grid(given, (*place, "grid"))]
        whole = [_laid_over(old, new) for old in whole for new in own]
    return whole


def _laid_over(old: Grid, new: Grid) -> Grid:
    """Return the keys of both grids; those that `new` has without values are not swept."""
    return {key: given for key, given in {**old, **new}.items() if not (key in old and key in new and given[0] == [])}


def _grid(table: dict, place: Place) -> Grid:
    """Return the values of each swept key in the `table` at `place`, and where they are."""
    return {key: (values, (*place, *key.split("."))) for key, values in flatten(table).items()}


def _alternatives(source: Source, key: str, values: Any, place: Place) -> list[Alternative]:
    """Return the values of a swept key; `UserError` where they are no list, or two of them have one name."""
    if not isinstance(values, list | tuple) or not values:
        raise source.error(place, f"grid {key} needs a list of values")
    alternatives = [_alternative(value) for value in values]
    shown = [json.dumps(one.shown) for one in alternatives]
    double = next((name for name in shown if shown.count(name) > 1), None)
    if double is not None:
        raise source.error(place, f"two alternatives are called {double}: give a table name = '...', or leave one out")
    return alternatives


def _alternative(value: Any) -> Alternative:
    if isinstance(value, dict):
        name = value.get("name", value.get("kind"))
        rest = {key: part for key, part in value.items() if key != "name"}
        return Alternative(rest, name if name is not None else _words(rest))
    if isinstance(value, list | tuple):
        return Alternative(list(value), json.dumps(list(value)))
    if dataclasses.is_dataclass(value):
        return Alternative(value, type(value).__name__)
    return Alternative(value, value)


def _words(value: Any) -> str:
    """Write the value of a swept key."""
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_words(part)}" for key, part in value.items())
    return str(value)
