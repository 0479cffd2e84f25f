"""What a method plays on a problem: its configuration in every setting of its grid."""

import dataclasses
from dataclasses import dataclass
from itertools import product
from typing import Any

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.experiment.config import Experiment, Reader, flatten
from turnout.problems.base import Problem
from turnout.studies.alternatives import alternatives_of, words
from turnout.studies.declaration import Declaration
from turnout.studies.sources import Place, Source

Places = list[tuple[dict, Place]]
"""The tables of a study that a configuration is made of, and where they are, the most special first."""


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
        return ", ".join(f"{name} = {words(value)}" for name, value in zip(names, self.values.values(), strict=True))

    def experiment(self) -> Experiment:
        """Return the configuration."""
        return self.reader.experiment(f"{self.method} on {self.problem}")


def settings_of(declaration: Declaration, problem: str, method: str) -> list[Setting]:
    """Return all settings of a method on a problem, in the order of its grid; the last key changes fastest."""
    places = _places(declaration.source, problem, method)
    tables = _tables(declaration.source.tables, places)
    grid = {key: alternatives_of(declaration.source, key, values, place) for key, (values, place) in _grid(places).items()}
    scale = {key: unit for part, _ in reversed(places) for key, unit in flatten(part.get("scale", {})).items()}
    settings = []
    for chosen in product(*grid.values()):
        own = tables
        # A whole part comes before the keys in it.
        for key, one in sorted(zip(grid, chosen, strict=True), key=lambda pair: pair[0].count(".")):
            try:
                own = with_value(own, key.split("."), one.value)
            except UserError as error:
                raise declaration.source.error(_grid(places)[key][1], str(error)) from None
        reader = SettingReader(declaration.source, own, places, tuple(grid), scale)
        settings.append(Setting(problem, method, {key: one.shown for key, one in zip(grid, chosen, strict=True)}, reader))
    return settings


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
        grid: The swept keys.
        scale: The constant of the problem by which the number at a key is multiplied.
    """

    def __init__(self, source: Source, tables: dict, places: Places, grid: tuple[str, ...], scale: dict[str, str]):
        super().__init__(source.label, "", tables)
        self.origin, self.places, self.grid, self.scale = source, places, grid, scale

    def error(self, path: Place, sentence: str) -> UserError:
        names = tuple(part for part in path if isinstance(part, str))
        for key in sorted(self.grid, key=len, reverse=True):
            swept = tuple(key.split("."))
            if swept == names[: len(swept)]:
                return self.origin.error(_grid(self.places)[key][1], f"{'.'.join(names)}: {sentence}")
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
                known = f"known are {', '.join(units)}" if units else "its smoothness is not known"
                raise self.error(tuple(path), f"scale {unit!r} is no constant of this problem: {known}")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self.error(tuple(path), f"scale multiplies a number, but {key} is {value!r}: give it one")
            tables = with_value(tables, path, value * units[unit])
        return SettingReader(self.origin, tables, self.places, self.grid, {})


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
        own = {key: value for key, value in part.items() if key not in ("title", "problems", "on", "grid", "scale")}
        tables = merged(tables, own)
    return tables


def _grid(places: Places) -> dict[str, tuple[Any, Place]]:
    """Return the values of each swept key, and where they are; a more special place has the last word."""
    grid: dict[str, tuple[Any, Place]] = {}
    for part, place in reversed(places):
        for key, values in flatten(part.get("grid", {})).items():
            grid[key] = (values, (*place, "grid", *key.split(".")))
    return grid
