"""A paper that compares ways to sample clients: its task, its samplers and its figures, read from TOML files."""

from dataclasses import dataclass, field
from typing import Literal

from turnout.experiment.config import Experiment, Reader
from turnout.reproduce.papers import figure_files, folder_of, read_tables
from turnout.samplers.base import Sampler, samplers_in


@dataclass(frozen=True)
class Panel:
    """One chart: `metric` of `samplers` against rounds at K = `size`, or their regret against K, or what needs no run."""

    kind: Literal["rounds", "budgets", "sizes", "errors", "estimates"]
    samplers: list[str] = field(default_factory=list)
    metric: Literal["regret", "variance", "test_value"] = "regret"
    size: int | None = None


@dataclass(frozen=True)
class Figure:
    """One figure."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]

    @property
    def needed(self) -> list[str]:
        """The samplers whose runs it shows."""
        return [name for panel in self.panels for name in panel.samplers]


@dataclass(frozen=True)
class Contender:
    """A sampler that takes part with cohorts of `sizes` = K clients; `role` says why.

    That is the paper's own, a baseline of the paper, its own with another setting, one that goes beyond the paper, or what all
    are measured by. One that is `told` knows beforehand how large all clients' first feedback is.
    """

    name: str
    title: str
    role: Literal["paper", "baseline", "sensitivity", "beyond", "reference"]
    sizes: list[int]
    experiment: Experiment
    told: bool = False

    @property
    def sampler(self) -> Sampler:
        """The sampler, with the largest K."""
        return samplers_in(self.experiment.algorithm)[0]

    @property
    def law(self) -> str:
        """What its probabilities have to obey."""
        return "K draws, Σq = 1" if self.sampler.replacement == "with" else "p ≤ 1, Σp = K"


@dataclass(frozen=True)
class Paper:
    """A paper: its samplers and figures; `sizes` are the K.

    `late` is the number of the last rounds that are averaged apart, `exponent` the power of K that the paper expects regret to
    follow, `equal` names the samplers that play with equal weights too, at all K of theirs.
    """

    name: str
    title: str
    authors: str
    sizes: list[int]
    seeds: int
    late: int
    exponent: float
    equal: list[str]
    contenders: dict[str, Contender]
    figures: dict[str, Figure]

    @property
    def own(self) -> Contender:
        """The paper's own sampler."""
        return next(contender for contender in self.contenders.values() if contender.role == "paper")


def read_paper(name: str) -> Paper:
    """Read the paper `name`."""
    folder = folder_of(name)
    _, tables = read_tables(folder / "paper.toml")
    del tables["kind"]
    _, samplers = read_tables(folder / "samplers.toml")
    return Paper(
        name=name,
        contenders={key: contender(folder, key, table, tables["sizes"]) for key, table in samplers.items()},
        figures={path.stem: read_figure(path) for path in figure_files(name)},
        **tables,
    )


def contender(folder, name: str, table: dict, sizes: list[int]) -> Contender:
    """Build the contender of one table of samplers.toml: a sampler, and what its algorithm has other than the task's."""
    _, task = read_tables(folder / "task.toml")
    algorithm = task["algorithm"] | table.get("algorithm", {})
    tables = task | {"sampler": table["sampler"], "algorithm": algorithm}
    experiment = Reader(f"{folder / 'samplers.toml'}, [{name}]", "", tables).experiment(name)
    return Contender(name, table["title"], table["role"], table.get("sizes", sizes), experiment, table.get("told", False))


def read_figure(path) -> Figure:
    """Read a figure."""
    _, tables = read_tables(path)
    return Figure(path.stem, tables["title"], tables["caption"], tuple(Panel(**panel) for panel in tables["panel"]))
