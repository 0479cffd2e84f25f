"""What `summary.json` of a run holds: the types of what the code writes, of which the JSON schema is made."""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from turnout.accounting.ledger import COUNTERS, EVENTS, Site
from turnout.engines.cost_estimate.estimate import CostEstimate
from turnout.experiment.provenance import Provenance

Column = Literal[(*Site.__dataclass_fields__, *COUNTERS)]
"""A field of a call site, or a counter."""

Event = Literal[EVENTS]
"""An event of the ledger."""


@with_config(extra="allow")
class Table(TypedDict):
    """A part of a configuration: its kind, its fields, and what else is known of it."""

    kind: str


class ProblemFacts(Table):
    """The problem, with its size."""

    clients: int
    rows: int
    parameters: int
    rows_per_client: dict[str, float]


class SamplerFacts(Table):
    """The first sampler, with what its design is."""

    design: str
    replacement: str
    weights: str
    selection: str | None


@with_config(extra="forbid")
class LedgerFacts(TypedDict):
    """Counts of events in all, and of each call site with its sizes."""

    totals: dict[Event, float]  # pyright: ignore[reportInvalidTypeForm]
    sites: list[dict[Column, int | str]]  # pyright: ignore[reportInvalidTypeForm]


@with_config(extra="forbid")
class TargetFacts(TypedDict):
    """The target, whether and when it was reached, and what that cost by price, NaN where it was not."""

    metric: str
    below: float
    reached: bool
    round: int | None
    costs: dict[str, float | None]


@with_config(extra="forbid")
class Confusion(TypedDict):
    """Of which rows, the predicted classes, and the counts of these for each class."""

    of: str
    predicted: list[str]
    counts: dict[str, list[int]]


@with_config(extra="forbid")
class FederationFacts(TypedDict):
    """The members at the end, by standing too, the rows that nodes claim, and why replies could not be used."""

    rows_claimed: dict[str, int]
    members: list[dict[str, Any]]
    absent: list[str]
    left_out: list[str]
    revoked: list[str]
    unusable_replies: dict[str, int]


@with_config(extra="forbid")
class RunSummary(Provenance):
    """The summary of a run; `folder` is what `--json` adds, and `timing` is there where it was asked for."""

    name: str
    turnout: str
    versions: dict[str, str]
    device: str
    command: str
    status: Literal["finished", "stopped at the target", "diverged"]
    diverged: int | None
    seeds: dict[str, int | None]
    problem: ProblemFacts
    split: Table | None
    sampler: SamplerFacts
    algorithm: Table
    precision: str
    engine: str
    aggregation: str | Table
    exchange: dict[str, Any] | None
    faults: dict[str, Any] | None
    groups: dict[str, Any] | None
    devices: dict[str, Any] | None
    hubs: dict[str, Any] | None
    rounds: int
    ledger: LedgerFacts
    metrics: Mapping[str, float | None]
    target: TargetFacts | None
    prices: list[Table]
    seconds: float
    confusion: NotRequired[Confusion]
    federation: NotRequired[FederationFacts]
    folder: NotRequired[str]
    plan: NotRequired[CostEstimate]
    privacy: NotRequired[dict[str, Any]]
    theory: NotRequired[dict[str, Any]]
    timing: NotRequired[dict[str, float]]
