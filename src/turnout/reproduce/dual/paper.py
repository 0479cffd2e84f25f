"""A paper that compares dual methods with primal ones: its sets, its contenders and what it prints, read from TOML files."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from turnout.core.records import Count, Positive, config
from turnout.experiment.config import Experiment, Reader
from turnout.reproduce.papers import figure_files, folder_of, read_tables

RATE = "tau/N"
"""What a set may write for a number that is the rate of participation."""


@config
class Setup:
    """A column of the counts: cohorts of `tau`, until the gap is at most `below`."""

    tau: Count
    below: Positive


@config
class AccuracySpec:
    """Of which sets the best test accuracy within `rounds` rounds is reported, at `tau`."""

    tau: Count
    rounds: Count
    sets: list[str]


@config
class Panel:
    """One chart: the gap of `contenders` on `set` against rounds or exchanges, at `tau`."""

    set: str
    contenders: list[str]
    against: Literal["round", "exchanges"] = "round"
    tau: Count = 30


@dataclass(frozen=True)
class Figure:
    """One figure."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]

    def shown(self, sets: list[str]) -> list[Panel]:
        """Return the charts that are of one of `sets`."""
        return [panel for panel in self.panels if panel.set in sets]


@config
class Contender:
    """A method with what is its own on every set; `role` says why it takes part.

    That is a baseline of the paper, its own method as its released program plays it, as the paper writes it, as released but
    with eager delivery, or a method that goes beyond the paper. `family` names what a set adds to its `algorithm`.
    """

    title: str
    role: Literal["baseline", "released", "paper", "eager", "beyond"]
    family: Literal["primal", "dual"]
    algorithm: dict


@dataclass(frozen=True)
class Setting:
    """A data set with a problem and a split: `contenders` play at most `rounds` rounds for each tau.

    `seeds` is the most that are played here, which costs hours on a large set; `least` is f*, the problem's optimum where it is
    None. `tables` are those of a configuration but for sampler and algorithm;
    `algorithms` is what the set adds to that of a family, or of one contender.
    """

    name: str
    title: str
    contenders: list[str]
    rounds: dict[int, int]
    tables: dict
    algorithms: dict[str, dict] = field(default_factory=dict)
    least: float | None = None
    seeds: int | None = None

    def experiment(self, name: str, contender: Contender, tau: int) -> Experiment:
        """Return what `contender`, called `name`, plays with cohorts of `tau`."""
        algorithm = contender.algorithm | self.algorithms.get(contender.family, {}) | self.algorithms.get(name, {})
        if algorithm.get("fraction") == RATE:
            algorithm["fraction"] = tau / self.tables["split"]["clients"]
        tables = self.tables | {
            "run": self.tables["run"] | {"rounds": self.rounds[tau]},
            "sampler": {"kind": "nice", "size": tau},
            "algorithm": algorithm,
        }
        return Reader(f"{name} on {self.name}", "", tables).experiment(f"{self.name}-{name}-{tau}")


@dataclass(frozen=True)
class Published:
    """What others found, each by set and contender: counts of rounds by setup too, such as "28" or ">100"; percents right."""

    counts: dict[tuple[str, str, Setup], str] = field(default_factory=dict)
    accuracies: dict[tuple[str, str], str] = field(default_factory=dict)

    def rounds(self, name: str, contender: str, setup: Setup) -> float:
        """Return a count as a number: infinity where it was not reached, NaN where there is none."""
        count = self.counts.get((name, contender, setup), "nan")
        return math.inf if count.startswith(">") else float(count)


@dataclass(frozen=True)
class Paper:
    """A paper: `until` is the share of the least epsilon at which a run ends, `bar` that by which rounds may differ."""

    name: str
    title: str
    authors: str
    until: float
    bar: float
    setups: tuple[Setup, ...]
    accuracy: AccuracySpec
    settings: dict[str, Setting]
    contenders: dict[str, Contender]
    printed: Published
    released: Published
    figures: dict[str, Figure]

    def of_role(self, role: str) -> list[str]:
        """Return the names of the contenders with a role."""
        return [name for name, contender in self.contenders.items() if contender.role == role]


def read_paper(name: str) -> Paper:
    """Read the paper `name`."""
    folder = folder_of(name)
    reader, tables = read_tables(folder / "paper.toml")
    contenders, entries = read_tables(folder / "contenders.toml")
    _, published = read_tables(folder / "published.toml")
    return Paper(
        name=name,
        setups=tuple(reader.plain(Setup, ("setup", k), table) for k, table in enumerate(tables["setup"])),
        accuracy=reader.plain(AccuracySpec, ("accuracy",), tables["accuracy"]),
        settings={key: read_setting(folder, key) for key in tables["sets"]},
        contenders={key: contenders.plain(Contender, (key,), table) for key, table in entries.items()},
        printed=read_published(published, "printed"),
        released=read_published(published, "released"),
        figures={path.stem: read_figure(path) for path in figure_files(name)},
        **{key: tables[key] for key in ("title", "authors", "until", "bar")},
    )


def read_setting(folder: Path, name: str) -> Setting:
    """Read a set; what it does not say is as in the one that it is `like`."""
    _, tables = read_tables(folder / "settings" / f"{name}.toml")
    if "like" in tables:
        _, base = read_tables(folder / "settings" / f"{tables.pop('like')}.toml")
        algorithms = {key: base["algorithm"].get(key, {}) | tables.get("algorithm", {}).get(key, {}) for key in base["algorithm"]}
        tables = base | tables | {"algorithm": algorithms}
    own = {key: tables.pop(key) for key in ("title", "contenders")}
    rounds = {int(tau): many for tau, many in tables.pop("rounds").items()}
    own |= {key: tables.pop(key, None) for key in ("least", "seeds")}
    return Setting(name=name, rounds=rounds, algorithms=tables.pop("algorithm"), tables=tables, **own)


def read_published(tables: dict, source: str) -> Published:
    """Read the numbers of one `source`: "printed" or "released"."""
    order = tables["order"]
    return Published(
        counts={
            (table["set"], name, Setup(tau=table["tau"], below=table["below"])): count
            for table in tables["count"]
            for name, count in zip(order, table.get(source, []), strict=False)
        },
        accuracies={
            (table["set"], name): percent
            for table in tables["accuracy"]
            for name, percent in zip(order, table[source], strict=True)
        },
    )


def read_figure(path: Path) -> Figure:
    """Read a figure."""
    reader, tables = read_tables(path)
    panels = tuple(reader.plain(Panel, ("panel", k), panel) for k, panel in enumerate(tables["panel"]))
    return Figure(path.stem, tables["title"], tables["caption"], panels)
