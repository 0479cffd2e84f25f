"""The table of all algorithms: what clients keep, what travels and what is promised, from the classes and their traces."""

import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from unittest.mock import patch

import algorithm_page

import turnout
from turnout.client_solvers import LocalSolver
from turnout.codecs import Codec, Exchange, RandK
from turnout.core.seeds import Seeds
from turnout.engines.coded_algorithm import coded
from turnout.engines.cost_estimate.estimate import Call, CostEstimate
from turnout.problems.storage.jax_client import JaxClient
from turnout.report.format import human_bytes, number
from turnout.report.plan import NamedPlan, calls
from turnout.runs.hub_layout import with_hubs
from turnout.runs.setup import bind, prepare, scope
from turnout.solvers import CohortSolver

PAGE = "catalogue.md"
THEOREMS = Path(__file__).parents[1] / "docs" / "theorems.md"

FAMILIES = {
    "Local steps": "Clients take several gradient steps between two exchanges, and keep nothing.",
    "Local steps with memory": "The same, and clients keep corrections, states of optimisers or points of their own.",
    "Gradient steps": "Clients reply with gradients, and the server moves.",
    "Proximal and dual steps": "Clients, or the server with them, solve a regularised problem in each exchange.",
    "Compressed differences": "Messages are compressed by a codec of the algorithm, with a correction that leads to the optimum.",
    "Second order": "Clients use Hessians, or products with them.",
    "Personal models": "Each client gets a model of its own.",
    "Asynchronous and in hubs": "Nobody waits for the slowest client, or hubs work by themselves.",
}
"""The families, in the order of the menu, and what their members have in common."""


HEADINGS = ("algorithm", "a client keeps", "exchanges a round", "a message", "a reply", "server reads", "`[exchange]`", "promise")

INTRODUCTION = """# All algorithms

Every algorithm of turnout, by families. The tables are made from the code: each algorithm is traced as in the example on its
page, with eight clients, as [`turnout describe`](describe.md) does. [Which one](choosing.md) asks five questions and answers with
a configuration; [configuration](configuration.md) has the updates, and [notation](notation.md) the symbols.

* **a client keeps**: what it stores from round to round. Where it keeps nothing, clients need not come back.
* **a message, a reply**: vectors are arrays shaped like the parameters; bytes are those of what else is sent. Semicolons divide
  the calls of a round.
* **server reads**: where sums suffice, they can be [encrypted](security.md), and [hubs](hubs.md) can add up.
* **`[exchange]`**: whether replies can be [compressed](compression.md) by a codec of your choice; "own" where the algorithm has
  one itself.
* **promise**: what falls, and how fast, by a theorem; [the assumptions](theorems.md) are on another page.
"""


def page(algorithms: dict[str, type]) -> str:
    """Return the page, in Markdown.

    Args:
        algorithms: The algorithms by name.
    """
    parts = [INTRODUCTION]
    for family, members in families(algorithms).items():
        lines = [HEADINGS, ("---",) * len(HEADINGS), *(row(name, cls) for name, cls in members.items())]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"## {family}\n\n{FAMILIES[family]}\n\n{table}\n")
    return "\n".join(parts)


def families(algorithms: dict[str, type]) -> dict[str, dict[str, type]]:
    """Return the algorithms of each family that has some.

    Args:
        algorithms: The algorithms by name.
    """
    of = {name: family_of(name, cls) for name, cls in algorithms.items()}
    members = {family: {name: cls for name, cls in algorithms.items() if of[name] == family} for family in FAMILIES}
    return {family: found for family, found in members.items() if found}


@cache
def family_of(name: str, cls: type) -> str:
    """Return the family of an algorithm, by what it is made of and what its clients do."""
    return algorithm_page.known("family", name, cls, lambda: found_family(name, cls))


def found_family(name: str, cls: type) -> str:
    """Return the family of an algorithm from its class and its traces."""
    algorithm = algorithm_page.example(name, cls).algorithm
    parts = [getattr(algorithm, field.name) for field in fields(algorithm)]
    if algorithm.works_in_hubs or hasattr(algorithm, "in_flight"):
        return "Asynchronous and in hubs"
    if algorithm.personalises or algorithm.model_groups:
        return "Personal models"
    if any(isinstance(part, LocalSolver | CohortSolver) for part in parts):
        return "Proximal and dual steps"
    estimate, curved = traced(name, cls)
    if curved:
        return "Second order"
    if any(isinstance(part, Codec) for part in parts):
        return "Compressed differences"
    local = {"steps", "probability"} & {field.name for field in fields(algorithm)}
    if not local and all(queries(call) <= 1 for call in estimate.calls):
        return "Gradient steps"
    return "Local steps with memory" if estimate.client.bytes else "Local steps"


@cache
def traced(name: str, cls: type) -> tuple[CostEstimate, bool]:
    """Return what an algorithm sends, and whether its clients use second derivatives."""
    used = []

    def noted(original):
        return lambda *arguments: used.append(original) or original(*arguments)

    with patch.object(JaxClient, "hvp", noted(JaxClient.hvp)), patch.object(JaxClient, "hessian", noted(JaxClient.hessian)):
        return algorithm_page.estimated(name, cls), bool(used)


def queries(call: Call) -> float:
    """Return how many queries the slowest client of an exchange makes, or infinity where that depends on the data."""
    most, exchanges = call.counts.get("queries_slowest"), call.counts.get("exchanges")
    if most is None or exchanges is None or not exchanges.most:
        return 0.0
    return float("inf") if most.most is None else most.most / exchanges.most


def row(name: str, cls: type) -> tuple[str, ...]:
    """Return the cells of an algorithm."""
    link = f"[`{name}`](reference/algorithms/{name.lower()}.md)"
    return link, *algorithm_page.known("row", name, cls, lambda: counted(name, cls)), promises().get(name, "")


def counted(name: str, cls: type) -> list[str]:
    """Return the cells of an algorithm that its traces tell."""
    estimate = algorithm_page.estimated(name, cls)
    grid = calls(NamedPlan(name, estimate, ()))
    asked = [call for call in estimate.calls if call.site.level == 0]
    cells = dict(zip(grid.headings, zip(*grid.rows, strict=True), strict=True))
    sizes = estimate.vector_bytes
    return [
        amount(estimate.client.vectors, estimate.client.bytes, sizes) or "nothing",
        joined(cells["exchanges"]),
        joined(amount(call.site.vectors_down, call.site.bytes_down, sizes) for call in asked),
        joined(amount(call.site.vectors_up, call.site.bytes_up, sizes) for call in asked),
        joined(cells["server reads"]),
        compressible(name, cls),
    ]


def joined(parts) -> str:
    """Return the parts of several calls; what is the same in all of them once."""
    shown = [part for part in parts if part and part != "–"]
    return "; ".join(shown if len({*shown}) > 1 else shown[:1])


def amount(vectors: float, size: float, vector: int) -> str:
    """Return how many vectors, and how many bytes beside them; nothing for nothing.

    Args:
        vectors: Number of vectors.
        size: Bytes of all.
        vector: Bytes of a vector.
    """
    rest = size - vectors * vector
    parts = [f"{number(vectors)} vector{'' if vectors == 1 else 's'}"] * bool(vectors) + [human_bytes(rest)] * (rest > 0)
    return " and ".join(parts)


def compressible(name: str, cls: type) -> str:
    """Return whether a codec of the user's choice can compress the replies of an algorithm."""
    algorithm = algorithm_page.example(name, cls).algorithm
    if any(isinstance(getattr(algorithm, field.name), Codec) for field in fields(algorithm)):
        return "own"
    problem = with_hubs(algorithm_page.problem(), turnout.Hubs(2) if algorithm.works_in_hubs else None)
    with scope("double"):
        job = prepare(problem, Seeds.of(0), None, None)
        try:
            coded(job, bind(algorithm, problem), Exchange(up=RandK(fraction=0.5)))
        except turnout.UserError:
            return "no"
    return "yes"


@cache
def promises() -> dict[str, str]:
    """Return what theorems promise of each algorithm that the page on theorems lists."""
    rows = re.findall(r"^\| (\[`.*?) \| (.*?) \|", THEOREMS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found, last = {}, ""
    for names, promise in rows:
        # "the same" is that of the row above.
        last = last + promise.removeprefix("the same") if promise.startswith("the same") else promise
        found |= dict.fromkeys(re.findall(r"`(\w+)`", names), last)
    return found
