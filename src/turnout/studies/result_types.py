"""What `summary.json` of a study holds: the types of what the code writes, of which the JSON schema is made."""

from typing import Any, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from turnout.experiment.provenance import Provenance
from turnout.studies.claims import Answer


@with_config(extra="forbid")
class ClaimFacts(TypedDict):
    """A claim on a problem in words, the answer, and the ratio of costs with its interval, None where unknown or infinite."""

    sentence: str
    claim: str
    problem: str
    answer: Answer
    at_most: float
    ratio: float | None
    low: float | None
    high: float | None


@with_config(extra="forbid")
class CostTable(TypedDict):
    """The cost of each method on each problem for a goal and a price."""

    goal: str
    price: str
    rows: list[dict[str, Any]]


@with_config(extra="forbid")
class BudgetFacts(TypedDict):
    """The most that runs could spend of a price, what they spent, and the runs that were not played."""

    price: str
    most: float
    spent: float
    not_played: list[str]


@with_config(extra="forbid")
class StudySummary(Provenance):
    """The summary of a study, with `budget` and `timing` where they were asked for; `--json` adds `folder` and `costs`."""

    title: str
    command: str
    date: str
    versions: dict[str, str]
    seeds: dict[str, str]
    runs: int
    broken: list[str]
    claims: list[ClaimFacts]
    findings: list[str]
    notes: dict[str, list[str]]
    budget: NotRequired[BudgetFacts]
    costs: NotRequired[list[CostTable]]
    folder: NotRequired[str]
    timing: NotRequired[dict[str, float]]
