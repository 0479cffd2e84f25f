"""Reading a configuration: TOML becomes records, and a mistake one sentence with its file and line."""

import dataclasses
import functools
import typing
from pathlib import Path
from typing import Any

from turnout.accounting.prices import FORMER_KINDS
from turnout.accounting.target import Target
from turnout.codecs import Exchange
from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError, unknown
from turnout.core.records import field_checks
from turnout.devices import Devices, Spread
from turnout.engines.faults import Faults
from turnout.experiment.experiment import Experiment, RunSpec
from turnout.experiment.federation_spec import FederationSpec
from turnout.experiment.groups_spec import GroupsSpec
from turnout.experiment.problem_specs import DataSpec
from turnout.experiment.registry import TABLES, class_of, kind_of
from turnout.experiment.toml_file import flatten, line_of, read_toml
from turnout.hubs import Hubs
from turnout.privacy.mechanism import Privacy
from turnout.problems.groups import Adapter, Personal
from turnout.samplers import Full
from turnout.solvers import AsCohortSolver

KNOWN = (
    "name", "problem", "split", "sampler", "algorithm", "run", "target", "price", "exchange", "faults", "groups", "devices",
    "hubs", "privacy", "sweep", "federation",
)  # fmt: skip
RECORDS = {
    "target": Target, "exchange": Exchange, "faults": Faults, "devices": Devices, "hubs": Hubs, "privacy": Privacy,
    "federation": FederationSpec,
}  # fmt: skip
"""The tables without a kind that may be left out, and what each becomes."""

GROUPS = {"personal": Personal, "adapter": Adapter}
NEEDED = ("problem", "sampler", "algorithm")


def read(path: Path) -> Experiment:
    """Read the configuration file `path`."""
    text, tables = read_toml(path)
    return Reader(str(path), text, tables).experiment(path.stem)


class Reader:
    """Turns parsed tables into an experiment, and locates errors in the text.

    Args:
        source: Name of the file, for messages.
        text: Its text.
        tables: Its parsed tables.
    """

    def __init__(self, source: str, text: str, tables: dict):
        self.source, self.text, self.tables = source, text, tables
        self.folder = Path(source).parent

    def experiment(self, name: str) -> Experiment:
        """Build the experiment."""
        for key in self.tables:
            if key not in KNOWN:
                raise self.error((key,), str(unknown("table", key, KNOWN)))
        for key in NEEDED:
            if key not in self.tables:
                raise self.missing(key)
        name = self.tables.get("name", name)
        if not isinstance(name, str) or not name.isprintable() or not name.strip() or "/" in name or name.startswith("."):
            raise self.error(("name",), f"a name is also that of a folder, so it cannot be {name!r}")
        problem, sampler = self.kind("problem", ("problem",)), self.kind("sampler", ("sampler",))
        prices = self.tables.get("price", [{"kind": "exchanges"}])
        if not isinstance(prices, list):
            raise self.error(("price",), "prices are a list: write [[price]] with double brackets")
        return Experiment(
            name=name,
            problem=problem,
            split=self.split(problem),
            algorithm=self.kind("algorithm", ("algorithm",), sampler=sampler),
            run=self.run(problem),
            prices=tuple(self.kind("price", ("price", k)) for k in range(len(prices))),
            groups=self.groups(),
            sweep=self.sweep(),
            **{key: self.optional(cls, key) for key, cls in RECORDS.items()},
        )

    def run(self, problem) -> RunSpec:
        """Build the run options; the default precision is that of `problem`."""
        given = self.tables.get("run", {})
        usual = {"precision": getattr(problem, "precision", RunSpec.precision)}
        if not isinstance(given, dict):
            return self.plain(RunSpec, ("run",), given)
        named = given.get("aggregation")
        if isinstance(named, str) and named in TABLES["aggregation"]:
            given = given | {"aggregation": {"kind": named}}
        return self.record(RunSpec, ("run",), usual | given)

    def split(self, problem):
        """Build the split of the rows of `problem`, or None if it has no rows to split."""
        if isinstance(problem, DataSpec):
            if "split" not in self.tables:
                raise self.missing("split")
            return self.kind("split", ("split",))
        if "split" in self.tables:
            raise self.error(("split",), f"problem kind {kind_of(problem)!r} has no rows to split: leave this table out")
        return None

    def groups(self) -> GroupsSpec:
        """Build the groups of leaves."""
        content = self.tables.get("groups", {})
        parts = {}
        if isinstance(content, dict):
            content = dict(content)
            for name in GROUPS.keys() & content.keys():
                parts[name] = self.plain(GROUPS[name], ("groups", name), content.pop(name))
        return self.plain(GroupsSpec, ("groups",), content, **parts)

    def optional(self, cls, key: str):
        """Build `cls` from the table `key`; None without one."""
        if key not in self.tables:
            return None
        content = self.tables[key]
        return self.record(cls, (key,), content) if isinstance(content, dict) else self.plain(cls, (key,), content)

    def kind(self, table: str, path: tuple, **parts):
        """Build the record of the table at `path`, whose class its `kind` names.

        Args:
            table: Name of the table in the registry.
            path: Names of the tables and the key.
            **parts: Fields that are built already.
        """
        content = self.at(path) if path != ("price", 0) or "price" in self.tables else {"kind": "exchanges"}
        if isinstance(content, str):
            content = {"kind": content}
        if not isinstance(content, dict) or not isinstance(content.get("kind"), str):
            name = [part for part in path if isinstance(part, str)][-1]
            raise self.error(path, f"table [{name}] needs a kind: one of {', '.join(sorted(TABLES[table]))}")
        kind, rest = content["kind"], {key: value for key, value in content.items() if key != "kind"}
        if table == "price":
            kind = FORMER_KINDS.get(kind, kind)
        try:
            cls = class_of(table, kind, self.folder)
        except UserError as error:
            raise self.error((*path, "kind"), str(error)) from None
        if table == "solver" and issubclass(cls, Algorithm):
            own = {key: rest.pop(key) for key in ("smoothness", "convexity") if key in rest}
            algorithm = self.record(cls, path, rest, sampler=Full(), schedule=None)
            return self.plain(AsCohortSolver, path, own, algorithm=algorithm)
        return self.record(cls, path, rest, **parts)

    def record(self, cls, path: tuple, content: dict, **parts):
        """Build `cls` and the records in it from the table `content` at `path`, and from the `parts` built already.

        Args:
            cls: Class of the record.
            path: Names of the tables and the key.
            content: Content of the table.
            **parts: Fields that are built already.
        """
        rest = dict(content)
        for name, (part, optional, several, forms) in records_in(cls).items():
            if name in parts or (optional and not isinstance(rest.get(name), forms)):
                continue
            given = rest.pop(name, None)
            if part == "algorithm":
                # The sampler is that of the algorithm inside.
                parts[name] = self.kind(part, (*path, name), sampler=parts.pop("sampler"))
            elif not several:
                parts[name] = self.kind(part, (*path, name))
            elif isinstance(given, list) and given:
                parts[name] = [self.kind(part, (*path, name, k)) for k in range(len(given))]
            else:
                raise self.error((*path, name), f"{name} is a list: give each {part} by its name or as a table with a kind")
        return self.plain(cls, path, rest, **parts)

    def plain(self, cls, path: tuple, content, **parts):
        """Build `cls` from the table `content` at `path` and the `parts` that are built already.

        Args:
            cls: Class of the record.
            path: Names of the tables and the key.
            content: The value at `path`.
            **parts: Fields that are built already.
        """
        if not isinstance(content, dict):
            raise self.error(path, f"[{path[0]}] is a table: write its keys below it")
        given = [field for field in dataclasses.fields(cls) if field.repr and field.name not in (*parts, "kind")]
        names = [field.name for field in given]
        for key in content:
            if key not in names:
                raise self.error((*path, key), str(unknown("key", key, names)))
        for field in given:
            if field.name not in content and field.default is field.default_factory is dataclasses.MISSING:
                raise self.error((*path, field.name), f"{field.name} is missing: give it a value")
        values = {key: field_checks(cls)[key].convert(value) for key, value in content.items()}
        for key, value in values.items():
            if not field_checks(cls)[key].accepts(value):
                raise self.error((*path, key), field_checks(cls)[key].sentence(value))
        try:
            return cls(**values, **parts)
        except UserError as error:
            # A record that checks a field by itself begins with its name.
            prefix, _, rest = str(error).partition(" ")
            of, _, name = prefix.partition(".")
            where, sentence = ((*path, name), rest) if of == cls.__name__ and name in content else (path, str(error))
            raise self.error(where, sentence) from None

    def sweep(self) -> dict[str, list]:
        """Return the grid: a list of values for each dotted name."""
        grid = flatten(self.tables.get("sweep", {}))
        for name, values in grid.items():
            if not isinstance(values, list) or not values:
                raise self.error(("sweep", name), f"sweep {name} needs a list of values")
        return grid

    def at(self, path: tuple):
        """Return the content at `path`; None if there is none."""
        content: Any = self.tables
        for part in path:
            content = content[part] if isinstance(part, int) or part in content else None
            if content is None:
                return None
        return content

    def missing(self, key: str) -> UserError:
        """Return the error of a missing table."""
        return self.error((), f"table [{key}] is missing: add it with a kind")

    def error(self, path: tuple, sentence: str) -> UserError:
        """Return the error `sentence`, with the file, the line and the name of the key at `path`.

        Args:
            path: Names of the tables and the key.
            sentence: What is wrong.
        """
        line = line_of(self.text, path)
        name = ".".join(str(part) for part in path if isinstance(part, str))
        where = f"{self.source}, line {line}" if line else self.source
        return UserError(f"{where}: {name}: {sentence}" if name else f"{where}: {sentence}")


@functools.cache
def records_in(cls) -> dict[str, tuple[str, bool, bool, tuple[type, ...]]]:
    """Return the fields of `cls` that tables with a kind fill: (table, optional, is a list, accepted TOML types).

    A string stands for a table with that kind alone, unless the field may be a string itself.
    """
    hints, records = typing.get_type_hints(cls), {}
    for field in dataclasses.fields(cls):
        choices = typing.get_args(hints[field.name]) or (hints[field.name],)
        classes = tuple(choice for choice in choices if isinstance(choice, type))
        several = typing.get_origin(hints[field.name]) is list
        for table, kinds in TABLES.items():
            # Several fields are spreads, each called after what is spread.
            named = table.split()[-1] + several * "s" == field.name or (table == "spread" and Spread in classes)
            if named and classes and any(issubclass(kind, classes) for kind in kinds.values()):
                text = any(choice is str or typing.get_origin(choice) is typing.Literal for choice in choices)
                forms = (dict,) if text else (str, dict)
                records[field.name] = table, len(choices) > 1 or field.default is not dataclasses.MISSING, several, forms
    return records
