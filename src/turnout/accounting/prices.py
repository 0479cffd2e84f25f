"""Prices: plain functions of the ledger's events, applied after a run.

Each `cost(events)` takes the numbers, or arrays of cumulative counts, that go by the names of `ledger.EVENTS`, and
returns the cost in the price's own unit.
"""

from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal, Protocol, Union, runtime_checkable

import numpy as np
from annotated_types import Ge

from turnout.core.errors import UserError
from turnout.core.records import NonNegative, Positive, config


@runtime_checkable
class Columns(Protocol):
    """What holds numbers or arrays by name: a dictionary, or a data frame."""

    def __getitem__(self, name: str, /) -> Any: ...


AtLeastOne = Annotated[float, Ge(1)]


@config
class Exchanges:
    """T K: every exchange costs one, whoever takes part (Cohort Squeeze, section 3.3)."""

    unit: ClassVar[str] = "exchanges"
    kind: Literal["exchanges"] = field(default="exchanges", kw_only=True)

    @property
    def label(self) -> str:
        return "exchanges"

    def cost(self, events: Columns):
        return events["exchanges"]


@config
class Hierarchical:
    """(c1 K + c2) T: c1 for an exchange inside a cohort's hub, c2 for each fresh cohort (Cohort Squeeze, section 3.6)."""

    unit: ClassVar[str] = "c1 per exchange + c2 per cohort"
    kind: Literal["hierarchical"] = field(default="hierarchical", kw_only=True)
    c1: NonNegative = 0.1
    c2: NonNegative = 1.0

    @property
    def label(self) -> str:
        return f"hierarchical(c1={self.c1:g}, c2={self.c2:g})"

    def cost(self, events: Columns):
        return self.c1 * events["exchanges"] + self.c2 * events["cohorts"]


@config
class Selection:
    """C_A N_A + C_R N_R + N_D with 1 <= C_R <= C_A: a price for how clients are selected (cost-aware selection, section 3)."""

    unit: ClassVar[str] = "delegate selections"
    kind: Literal["selection"] = field(default="selection", kw_only=True)
    arbitrary: AtLeastOne = 1.0
    random: AtLeastOne = 1.0

    def __post_init__(self):
        if self.random > self.arbitrary:
            raise UserError(
                f"price 'selection' needs random <= arbitrary, but random is {self.random} and arbitrary {self.arbitrary}"
            )

    @property
    def label(self) -> str:
        return f"selection(arbitrary={self.arbitrary:g}, random={self.random:g})"

    def cost(self, events: Columns):
        arbitrary = events["draws_arbitrary"] + events["reasks"]
        return self.arbitrary * arbitrary + self.random * events["draws_random"] + events["draws_delegate"]


@config
class Bytes:
    """Payload bytes both ways, summed over all contacted clients."""

    unit: ClassVar[str] = "bytes"
    kind: Literal["bytes"] = field(default="bytes", kw_only=True)

    @property
    def label(self) -> str:
        return "bytes"

    def cost(self, events: Columns):
        return events["bytes_down"] + events["bytes_up"]


@config
class Seconds:
    """A link model: each exchange waits one `latency` (s), bytes pass the server's link at `bandwidth` (bytes/s), and the
    slowest client spends `query` seconds on each oracle call."""

    unit: ClassVar[str] = "seconds"
    kind: Literal["seconds"] = field(default="seconds", kw_only=True)
    latency: NonNegative = 0.05
    bandwidth: Positive = 1e7
    query: NonNegative = 0.0

    @property
    def label(self) -> str:
        return f"seconds(latency={self.latency:g}, bandwidth={self.bandwidth:g}, query={self.query:g})"

    def cost(self, events: Columns):
        transfer = (events["bytes_down"] + events["bytes_up"]) / self.bandwidth
        return self.latency * events["exchanges"] + transfer + self.query * events["queries_slowest"]


FORMER_KINDS = {"rounds": "exchanges"}
"""Kinds under names that older files still use."""

Price = Union[Exchanges, Hierarchical, Selection, Bytes, Seconds]


def cost_to_target(price: Price, trace: Columns, hit: int | None) -> float | None:
    """Return the cost of the trace's row `hit` under `price`; None where the target was not reached."""
    return None if hit is None else float(np.asarray(price.cost(trace))[hit])
