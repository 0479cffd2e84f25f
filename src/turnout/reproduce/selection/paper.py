"""A paper that compares methods by the price of their selections: its problems, contenders and figures, from TOML files."""

from dataclasses import dataclass, replace
from typing import Literal

from turnout.accounting.prices import AtLeastOne
from turnout.core.records import Count, Positive, config
from turnout.experiment.config import Experiment, Reader
from turnout.reproduce.papers import figure_files, folder_of, read_tables


@config
class Contender:
    """A method: its algorithm, the numbers that its `grid` goes through, and the most rounds that it may take.

    `scale` names those that are given as multiples of a constant of the problem: L = max_i L_i, or 1/L. `role` says why it
    takes part: a method of the paper, a baseline, one with settings of its own for a figure, or one that goes beyond the paper.
    """

    title: str
    algorithm: dict
    grid: dict[str, list[int | float]]
    scale: dict[str, Literal["L", "1/L"]] | None = None
    rounds: Count = 500
    role: Literal["paper", "baseline", "detail", "beyond"] = "baseline"


@config
class Panel:
    """One chart: |grad f|^2 of `contenders` on `problems`, against the price of their selections or the slowest clients' queries.

    Each contender has its best setting, or where `every` all settings of its grid; `arbitrary` is C_A, and C_R is 1.
    """

    problems: list[str]
    contenders: list[str]
    against: Literal["cost", "queries"] = "cost"
    every: bool = False
    arbitrary: AtLeastOne = 1.0

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Who has to play on what."""
        return [(problem, name) for problem in self.problems for name in self.contenders]


@config
class Local:
    """One chart: the constants delta and L_1 along the steps that `contender` takes on `problem` at its best."""

    problem: str
    contender: str

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Who has to play on what."""
        return [(self.problem, self.contender)]


@dataclass(frozen=True)
class Figure:
    """One figure."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    local: tuple[Local, ...] = ()

    def shown(self, problems: list[str]) -> list[Panel | Local]:
        """Return the charts that are of `problems` only."""
        panels = [panel for panel in self.panels if set(panel.problems) <= set(problems)]
        return [*panels, *(local for local in self.local if local.problem in problems)]


@dataclass(frozen=True)
class Setting:
    """A problem with a sampler: the tables of a configuration but for the algorithm, and who plays on it.

    `own` has what is not as elsewhere of some contenders, such as their rounds and grid.
    """

    name: str
    title: str
    contenders: list[str]
    tables: dict
    own: dict[str, dict]

    def experiment(self, name: str, contender: Contender) -> Experiment:
        """Return what `contender`, called `name`, plays here."""
        run = {"metrics": ["gradient"], "rounds": contender.rounds} | self.tables.get("run", {})
        sweep = {f"algorithm.{key}": values for key, values in contender.grid.items()}
        tables = self.tables | {"algorithm": contender.algorithm, "run": run, "sweep": sweep}
        return Reader(f"{name} on {self.name}", "", tables).experiment(f"{self.name}-{name}")


@config
class Claims:
    """What is looked at in words: `best` is the contender that should be cheapest on each problem of `compared`.

    `passes` are those like it that begin with 1 and 2 passes over all clients. Its cost should grow as n_m^`exponent` up to
    `within` over the problems of each list in `growth`, n_m being n over the cohorts' size, and be flat in C_A while that of
    `renewing` grows. One that goes `beyond` should be within a factor `factor` of the best of the grid, wherever both play.
    """

    compared: list[str]
    best: str
    passes: list[str]
    renewing: str
    growth: list[list[str]]
    exponent: Positive
    within: Positive
    factor: Positive


@dataclass(frozen=True)
class Setup:
    """A column of the tables: the price, C_A = `arbitrary` and C_R = 1, of getting |grad f|^2 to a share `below` of the first."""

    below: float
    arbitrary: float = 1.0


@dataclass(frozen=True)
class Paper:
    """A paper: runs arrive where |grad f|^2 is a share in `below` of that at the start; `ratios` are C_A / C_R for the first."""

    name: str
    title: str
    authors: str
    below: list[float]
    ratios: list[float]
    claims: Claims
    settings: dict[str, Setting]
    contenders: dict[str, Contender]
    figures: dict[str, Figure]

    @property
    def setups(self) -> list[Setup]:
        """The columns of the tables."""
        first, *others = self.below
        return [*(Setup(first, ratio) for ratio in self.ratios), *(Setup(below) for below in others)]

    def contender(self, problem: str, name: str) -> Contender:
        """Return a contender as it plays on a problem."""
        return replace(self.contenders[name], **self.settings[problem].own.get(name, {}))


def read_paper(name: str) -> Paper:
    """Read the paper `name`."""
    folder = folder_of(name)
    reader, tables = read_tables(folder / "paper.toml")
    contenders, entries = read_tables(folder / "contenders.toml")
    return Paper(
        name=name,
        claims=reader.plain(Claims, ("claims",), tables["claims"]),
        settings={key: read_setting(folder / "problems" / f"{key}.toml") for key in tables["problems"]},
        contenders={key: contenders.plain(Contender, (key,), table) for key, table in entries.items()},
        figures={path.stem: read_figure(path) for path in figure_files(name)},
        **{key: tables[key] for key in ("title", "authors", "below", "ratios")},
    )


def read_setting(path) -> Setting:
    """Read a problem."""
    _, tables = read_tables(path)
    own = {key: tables.pop(key) for key in ("title", "contenders")}
    return Setting(name=path.stem, own=tables.pop("contender", {}), tables=tables, **own)


def read_figure(path) -> Figure:
    """Read a figure."""
    reader, tables = read_tables(path)
    panels = tuple(reader.plain(Panel, ("panel", k), table) for k, table in enumerate(tables.get("panel", [])))
    local = tuple(reader.plain(Local, ("local", k), table) for k, table in enumerate(tables.get("local", [])))
    return Figure(path.stem, tables["title"], tables["caption"], panels, local)
