"""What is to be planned: a problem, a target and prices, and what is allowed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from turnout.accounting.ledger import EVENTS
from turnout.accounting.prices import Price
from turnout.core.errors import UserError, unknown
from turnout.core.records import NonNegative, Positive, config
from turnout.experiment.config import Reader
from turnout.experiment.toml_file import read_toml
from turnout.studies.declaration import Declaration
from turnout.studies.reader import METHOD, DeclarationReader
from turnout.studies.sources import File, Place, Source

FAMILIES = Path(__file__).with_name("families.toml")
"""The families that are compared."""

HUB_FAMILIES = Path(__file__).with_name("hub_families.toml")
"""Those that join them where there are hubs."""

OWN = "yours"
"""The name of the family of a file that has an algorithm itself."""

PROBLEM = "problem"

SHARED = ("problem", "split", "run", "target", "exchange", "faults", "devices", "hubs", "groups", "privacy")
"""The tables of a file that say which problem it is."""

TABLES = ("name", *SHARED, "sampler", "algorithm", "price", "plan", "methods")

MOUNTS: tuple[tuple[Place, Place], ...] = (
    (("problems", PROBLEM), ()),
    (("methods", OWN), ()),
    (("methods",), ("methods",)),
    (("goals", "target"), ("target",)),
)
"""Where the tables of a file are in the study that is planned."""

ROUNDS = 400
"""The rounds of a run that does not say how many."""


@config
class Limits:
    """The table [plan]: what is allowed.

    Args:
        allow: Names of families, or kinds of algorithms, samplers or solvers, of which a candidate has one; default: all.
        forbid: Such names that no candidate has.
        private_states: Whether clients may keep vectors between rounds.
        sums_only: Whether the server may only use sums of replies.
        client_bytes: The most bytes that a client keeps between rounds.
        client_queries: The most oracle calls of a client in an exchange.
        budget: The most that a run may cost, at the first price.
        seeds: Number of fresh seeds of the final.
        against: The event whose price varies where the plan tells what is best at other prices; default: contacts, or exchanges
            where the price does not charge these.
    """

    allow: list[str] | None = None
    forbid: list[str] | None = None
    private_states: bool = True
    sums_only: bool = False
    client_bytes: NonNegative | None = None
    client_queries: Positive | None = None
    budget: Positive | None = None
    seeds: Annotated[int, Ge(5)] = 11
    against: str | None = None

    def __post_init__(self):
        if self.against is not None and self.against not in EVENTS:
            raise unknown("event", self.against, EVENTS)

    @property
    def estimated(self) -> bool:
        """Whether a limit is on what an estimate tells of a structure."""
        return not self.private_states or self.sums_only or self.client_bytes is not None or self.client_queries is not None


@dataclass(frozen=True)
class Task:
    """A planning task.

    Args:
        name: Its name.
        declaration: The problem and the families, as a study.
        prices: The prices; the plan is for the first.
        limits: What is allowed.
        words: The target in words.
    """

    name: str
    declaration: Declaration
    prices: tuple[Price, ...]
    limits: Limits
    words: str


def read_task(path: Path, like: Path | None = None) -> Task:
    """Read the file `path`; with `like` its problem and split are those of that file."""
    text, tables = read_toml(path)
    files = [File(str(path), text, tables, MOUNTS, path.parent)]
    if like is not None:
        text, other = read_toml(like)
        if "problem" not in other:
            raise UserError(f"{like}: table [problem] is missing: a stand-in needs a problem at hand")
        stand_in = {key: other[key] for key in ("problem", "split") if key in other}
        tables = {key: content for key, content in tables.items() if key not in ("problem", "split")} | stand_in
        files.append(File(str(like), text, stand_in, MOUNTS, like.parent))
    reader = Reader(str(path), files[0].text, tables)
    for key in tables:
        if key not in TABLES:
            raise reader.error((key,), str(unknown("table", key, TABLES)))
    for key in ("problem", "target"):
        if key not in tables:
            raise reader.error((), f"table [{key}] is missing: a plan needs a problem and a target")
    given = tables.get("price", [{"kind": "exchanges"}])
    if not isinstance(given, list) or not given:
        raise reader.error(("price",), "prices are a list: write [[price]] with double brackets")
    prices = tuple(reader.kind("price", ("price", k)) for k in range(len(given)))
    limits = reader.plain(Limits, ("plan",), tables.get("plan", {}))
    return task_of(tables, prices, limits, str(tables.get("name", path.stem)), tuple(files))


def task_of(tables: dict, prices: tuple[Price, ...], limits: Limits, name: str, files: tuple[File, ...] = ()) -> Task:
    """Return the task in `tables`, which are those of a configuration; parts may be Python objects.

    Args:
        tables: The tables.
        prices: The prices.
        limits: What is allowed.
        name: The name of the task.
        files: The files that the tables are from.
    """
    sources = [FAMILIES, HUB_FAMILIES] if "hubs" in tables else [FAMILIES]
    known = [File(str(path), *read_toml(path), (((), ()),), path.parent) for path in sources]
    problem = {key: tables[key] for key in SHARED if key in tables}
    if isinstance(problem["target"], dict):
        problem["target"] = {**problem["target"], "stop": True}
    problem["run"] = {"rounds": ROUNDS, **{key: value for key, value in tables.get("run", {}).items() if key != "seed"}}
    methods = {name: family for file in known for name, family in file.tables["methods"].items()}
    methods |= tables.get("methods", {})
    if "algorithm" in tables:
        methods[OWN] = {"title": "the file's own", **{key: tables[key] for key in ("algorithm", "sampler") if key in tables}}
    goal = {key: problem["target"][key] for key in ("metric", "below") if key in problem["target"]}
    study = {"title": name, "problems": {PROBLEM: problem}, "methods": methods, "goals": {"target": goal}}
    declaration = DeclarationReader(Source(study, (*known, *files), name)).declaration()
    return Task(name, declaration, prices, limits, declaration.goals["target"].words)


def allowed(task: Task) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Return the names of the families that may play by their kinds, and why each of the others may not, by the limit."""
    limits, methods = task.limits, task.declaration.source.tables["methods"]
    known = {name: _kinds(name, {key: content.get(key) for key in METHOD}) for name, content in methods.items()}
    everything = {word for words in known.values() for word in words}
    for word in (*(limits.allow or ()), *(limits.forbid or ())):
        if word not in everything:
            raise UserError(f"plan: {unknown('family or kind', word, sorted(everything))}")
    refused: dict[str, dict[str, str]] = {}
    for name, words in known.items():
        if limits.allow is not None and not words & {*limits.allow}:
            refused.setdefault(name, {})["allow"] = "allow does not name it"
        if word := next((word for word in limits.forbid or () if word in words), None):
            refused.setdefault(name, {})["forbid"] = f"forbid names {word}"
    return [name for name in known if name not in refused], refused


def _kinds(name: str, content: Any) -> set[str]:
    """Return the name of a family and the kinds of its algorithm, sampler and solver."""
    words = {name}
    for part in (content["algorithm"], content["sampler"]):
        words |= {part} if isinstance(part, str) else set()
        if isinstance(part, dict):
            words |= {part["kind"]}
            for inside in ("solver", "algorithm"):
                words |= _kinds(name, {"algorithm": part.get(inside), "sampler": None})
    return words
