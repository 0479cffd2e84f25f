"""A paper that compares methods on networks: its problems, contenders, figures and tables, from TOML files."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from turnout.accounting.prices import Exchanges, Price
from turnout.core.records import Count, Positive, config
from turnout.experiment.config import Experiment, Reader
from turnout.report.format import number
from turnout.reproduce.papers import figure_files, folder_of, read_tables

SCALES = ("small", "paper")

Metric = Literal["accuracy", "test_accuracy", "value", "test_value"]


@config
class Contender:
    """A method: what its tables have that the problem's lack or have otherwise, and the numbers its `grid` goes through.

    `along` is the one of these that figures may go along, and that is therefore not tuned there.
    """

    title: str
    algorithm: dict
    sampler: dict | None = None
    problem: dict | None = None
    grid: dict[str, list[int | float]] | None = None
    along: str | None = None
    role: Literal["paper", "baseline", "beyond"] = "baseline"

    def settings(self) -> list[dict[str, float]]:
        """Return all settings of the grid."""
        grid = self.grid or {}
        return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


@dataclass(frozen=True)
class Goal:
    """What is asked of a run: the cost under `price` of `metric` at `level`, or where that is none, its best value.

    The level "common" is the paper's `ceiling`, or where that is worse, the best that the mean over the runs of the paper's
    `measure` reaches.
    """

    metric: Metric = "accuracy"
    level: float | Literal["common"] | None = None
    price: Price = Exchanges()

    @property
    def upwards(self) -> bool:
        """Whether larger values are better."""
        return self.metric.endswith("accuracy")


@dataclass(frozen=True)
class Panel:
    """One chart about `contenders` on `problem`, of one kind.

    "curves": the goal's metric against its cost, or the slowest clients' queries; "levels": costs to several `levels`; "prices":
    costs under the hierarchical prices of several `c1`; "along": costs against the number that a contender goes along; "sizes":
    the rows of the clients.
    """

    kind: Literal["curves", "levels", "prices", "along", "sizes"]
    problem: str
    goal: Goal = Goal()
    contenders: tuple[str, ...] = ()
    against: Literal["cost", "queries"] = "cost"
    levels: tuple[float, ...] = ()
    c1: tuple[float, ...] = ()

    @property
    def goals(self) -> list[Goal]:
        """The goals for which settings are chosen."""
        if self.kind == "levels":
            return [replace(self.goal, level=level) for level in self.levels]
        if self.kind == "prices":
            return [replace(self.goal, price=replace(self.goal.price, **{"c1": c1})) for c1 in self.c1]
        return [] if self.kind == "sizes" else [self.goal]


@dataclass(frozen=True)
class Figure:
    """One figure."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]

    def shown(self, problems: list[str]) -> list[Panel]:
        """Return the charts that are of `problems`."""
        return [panel for panel in self.panels if panel.problem in problems]


@dataclass(frozen=True)
class Column:
    """A column of the tables of `problems`, or where none are named, of all tables."""

    title: str
    goal: Goal
    problems: tuple[str, ...] = ()


@config
class Claim:
    """The cost of `own` should be at most `factor` times that of `rival` on `problem`, for the goal of the column `column`."""

    problem: str
    column: str
    own: str
    rival: str
    factor: Positive = 1.0


@dataclass(frozen=True)
class Setting:
    """A problem with the tables that all configurations on it share, and who plays on it."""

    name: str
    title: str
    contenders: tuple[str, ...]
    tables: dict

    def experiment(self, name: str, contender: Contender, values: dict[str, float]) -> Experiment:
        """Return what `contender`, called `name`, plays here with the `values` of its grid."""
        own = {key: getattr(contender, key) or {} for key in ("algorithm", "sampler", "problem")}
        tables = merged(self.tables, own)
        for key, value in values.items():
            tables = merged(tables, nested(["algorithm", *key.split(".")], value))
        return Reader(f"{name} on {self.name}", "", tables).experiment(f"{self.name}-{name}")


@dataclass(frozen=True)
class Paper:
    """A paper at one scale: settings are tuned with `tuning` seeds, and those chosen play with others."""

    name: str
    title: str
    authors: str
    scale: str
    tuning: Count
    columns: tuple[Column, ...]
    claims: tuple[Claim, ...]
    settings: dict[str, Setting]
    contenders: dict[str, Contender]
    figures: dict[str, Figure]
    measure: str | None = None
    ceiling: float | None = None

    def columns_of(self, problem: str) -> list[Column]:
        """Return the columns of the table of `problem`."""
        return [column for column in self.columns if problem in (column.problems or self.settings)]


def read_paper(name: str, scale: str = "small") -> Paper:
    """Read the paper `name` at one of SCALES."""
    folder = folder_of(name)
    reader, tables = read_tables(folder / "paper.toml")
    contenders, entries = read_tables(folder / "contenders.toml")
    return Paper(
        name=name,
        scale=scale,
        columns=tuple(read_column(reader, column) for column in tables.get("column", [])),
        claims=tuple(reader.plain(Claim, ("claim", k), claim) for k, claim in enumerate(tables.get("claim", []))),
        settings={key: read_setting(folder / "problems" / f"{key}.toml", scale) for key in tables["problems"]},
        contenders={key: contenders.plain(Contender, (key,), at_scale(table, scale)) for key, table in entries.items()},
        figures={path.stem: read_figure(path) for path in figure_files(name)},
        **{key: tables[key] for key in ("title", "authors", "tuning", "measure", "ceiling") if key in tables},
    )


def read_setting(path, scale: str) -> Setting:
    """Read a problem."""
    _, tables = read_tables(path)
    tables = at_scale(tables, scale)
    return Setting(path.stem, tables.pop("title"), tuple(tables.pop("contenders")), tables)


def read_figure(path) -> Figure:
    """Read a figure."""
    reader, tables = read_tables(path)
    return Figure(path.stem, tables["title"], tables["caption"], tuple(read_panel(reader, each) for each in tables["panel"]))


def read_panel(reader: Reader, table: dict) -> Panel:
    """Read a panel."""
    goal = read_goal(reader, {key: table.pop(key) for key in ("metric", "level", "price") if key in table})
    return Panel(goal=goal, **{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()})


def read_column(reader: Reader, table: dict) -> Column:
    """Read a column."""
    title, problems = table.pop("title"), tuple(table.pop("problems", ()))
    return Column(title, read_goal(reader, table), problems)


def read_goal(reader: Reader, table: dict) -> Goal:
    """Read a goal, whose price is a table with a kind."""
    price = Reader(reader.source, "", {"price": table.pop("price", {"kind": "exchanges"})}).kind("price", ("price",))
    return Goal(**table, price=price)


def at_scale(tables: dict, scale: str) -> dict:
    """Return `tables` with what those named `scale` say in their place, and those of other scales left out."""
    common = {key: value for key, value in tables.items() if key not in SCALES}
    return merged(common, tables.get(scale, {}))


def merged(tables: dict, more: dict) -> dict:
    """Return `tables` with the values of `more`, table by table; a grid or a table of another kind takes the old one's place."""
    found = dict(tables)
    for key, value in more.items():
        old = found.get(key)
        both = isinstance(old, dict) and isinstance(value, dict) and key != "grid"
        found[key] = merged(old, value) if both and len({value.get("kind"), old.get("kind"), None}) <= 2 else value
    return found


def nested(path: list[str], value):
    """Return the tables that hold `value` at `path`."""
    return {path[0]: nested(path[1:], value)} if path else value


def told(values: dict[str, float]) -> str:
    """Write the values of a setting, such as "lr = 0.1, inner = 3"; numbers that end alike have their whole names."""
    last = [key.rpartition(".")[2] for key in values]
    names = [name if last.count(name) == 1 else key for key, name in zip(values, last, strict=True)]
    return ", ".join(f"{name} = {number(value)}" for name, value in zip(names, values.values(), strict=True))
