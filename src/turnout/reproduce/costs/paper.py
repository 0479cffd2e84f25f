"""What can be reproduced: a paper's families of runs, its figures and its tables, read from TOML files."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from turnout.accounting.prices import Exchanges, Price
from turnout.core.records import Count, Positive, config
from turnout.experiment.config import Experiment
from turnout.reproduce.papers import PAPERS, figure_files, folder_of, read_tables


@config
class FamilySpec:
    """A run plays until it has had `exchanges` exchanges; at least `seeds` seeds tune the grid.

    `scale` names hyper-parameters that are given as multiples of a constant of the problem: "1/L", with L = max_i L_i.
    """

    title: str
    exchanges: Count = 200
    seeds: Count = 1
    scale: dict[str, Literal["1/L"]] | None = None


@dataclass(frozen=True)
class Family:
    """A family of runs: one configuration with a grid, played on any data set."""

    name: str
    spec: FamilySpec
    experiment: Experiment


@config
class Line:
    """One curve of a convergence figure: the runs of `family` whose hyper-parameters are `where`."""

    family: str
    label: str
    where: dict[str, float] | None = None


@dataclass(frozen=True)
class Figure:
    """One figure: cost to each target `below` against K, or (where `kind` is "convergence") distance against exchanges."""

    name: str
    title: str
    kind: Literal["cost", "convergence"]
    sets: list[str]
    families: list[str] = field(default_factory=list)
    baselines: list[str] = field(default_factory=list)
    below: list[Positive] = field(default_factory=list)
    lines: tuple[Line, ...] = ()
    price: Price = Exchanges()

    @property
    def needed(self) -> list[str]:
        """The families whose runs it shows."""
        return list(dict.fromkeys([*self.families, *self.baselines, *(line.family for line in self.lines)]))


@config
class Printed:
    """The numbers that the paper prints for a6a and a distance below 0.005: costs and reductions in percent."""

    localgd: float
    sppm: float
    reduction: float
    hierarchical_sppm: float
    hierarchical_reduction: float


@config
class Rung:
    """One row of the ladder: the best setting of any of `families`."""

    label: str
    families: list[str]


@config
class TableSpec:
    """The families that compete in the table: LocalGD under two samplers, and SPPM-AS."""

    nice: list[str]
    stratified: list[str]
    sppm: list[str]


@dataclass(frozen=True)
class Paper:
    """A paper: its data sets, its targets, what it prints, and how many fresh seeds report a tuned setting."""

    name: str
    title: str
    authors: str
    sets: list[str]
    targets: list[float]
    fresh: int
    table: TableSpec
    printed: Printed
    ladder: tuple[Rung, ...]
    figures: dict[str, Figure]

    def family(self, name: str, data: str) -> Family:
        """Read a family for the data set `data`."""
        return read_family(PAPERS / self.name / "families" / f"{name}.toml", data)

    @property
    def tabled(self) -> list[str]:
        """The families that the tables need."""
        rungs = [name for rung in self.ladder for name in rung.families]
        return list(dict.fromkeys([*self.table.nice, *self.table.stratified, *self.table.sppm, *rungs]))


def read_paper(name: str) -> Paper:
    """Read the paper `name`."""
    reader, tables = read_tables(folder_of(name) / "paper.toml")
    del tables["kind"]
    return Paper(
        name=name,
        table=reader.plain(TableSpec, ("table",), tables.pop("table")),
        printed=reader.plain(Printed, ("printed",), tables.pop("printed")),
        ladder=tuple(reader.plain(Rung, ("ladder", k), rung) for k, rung in enumerate(tables.pop("ladder"))),
        figures={path.stem: read_figure(path) for path in figure_files(name)},
        **tables,
    )


def read_family(path: Path, data: str) -> Family:
    """Read a family's configuration, its data set being `data`."""
    reader, tables = read_tables(path)
    spec = reader.plain(FamilySpec, ("family",), tables.pop("family"))
    tables["problem"]["data"] = data
    return Family(path.stem, spec, reader.experiment(path.stem))


def read_figure(path: Path) -> Figure:
    """Read a figure."""
    reader, tables = read_tables(path)
    lines = tuple(reader.plain(Line, ("line", k), line) for k, line in enumerate(tables.pop("line", [])))
    if "price" in tables:
        tables["price"] = reader.kind("price", ("price",))
    return Figure(path.stem, lines=lines, **tables)
