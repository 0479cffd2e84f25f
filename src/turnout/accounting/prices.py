"""Prices: functions of the ledger's events, applied after a run.

`cost(events)` reads the counts that it needs by their names in `ledger.EVENTS` and returns the cost in the price's `unit`. Counts
are numbers, or arrays of cumulative counts, one for each trace row; the cost has the same shape. A price of your own is a class
with `unit`, `label` and `cost`.
"""

from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal, Protocol, Union, runtime_checkable

import numpy as np
from annotated_types import Ge

from turnout.accounting.ledger import EVENTS
from turnout.core.errors import UserError
from turnout.core.records import NonNegative, Positive, config


@runtime_checkable
class Columns(Protocol):
    """Numbers or arrays by name: a dictionary or a data frame."""

    def __getitem__(self, name: str, /) -> Any: ...


@runtime_checkable
class Price(Protocol):
    """What is charged for events, in its `unit`; tables and axes show its `label`."""

    unit: ClassVar[str]

    @property
    def label(self) -> str: ...

    def cost(self, events: Columns, /) -> Any: ...


AtLeastOne = Annotated[float, Ge(1)]


@config
class Exchanges:
    """T K: every exchange costs one, whoever takes part (Cohort Squeeze, section 3.3).

    T is the number of cohorts and K the number of exchanges with each.

    Args:
        kind: The name of the price in configurations.

    Examples:
        >>> import turnout as t
        >>> t.Exchanges().cost({"exchanges": 12})
        12
    """

    unit: ClassVar[str] = "exchanges"
    kind: Literal["exchanges"] = field(default="exchanges", kw_only=True)

    @property
    def label(self) -> str:
        return "exchanges"

    def cost(self, events: Columns):
        return events["exchanges"]


@config
class Hierarchical:
    """(c1 K + c2) T: c1 for each exchange with clients, c2 for each with the server (Cohort Squeeze, section 3.6).

    With `turnout.Hubs` the exchanges with the server are those that pass its own link. Without, they are taken to be those with
    a new cohort, as if each cohort had a hub of its own: T cohorts with K exchanges each.

    Args:
        c1: Cost of one exchange with clients, >= 0.
        c2: Cost of one exchange with the server, >= 0.
        kind: The name of the price in configurations.

    Examples:
        >>> import turnout as t
        >>> t.Hierarchical(c1=0.25, c2=1.0).cost({"exchanges": 12, "server_exchanges": 3})
        6.0
    """

    unit: ClassVar[str] = "c1 per exchange + c2 per cohort"
    kind: Literal["hierarchical"] = field(default="hierarchical", kw_only=True)
    c1: NonNegative = 0.1
    c2: NonNegative = 1.0

    @property
    def label(self) -> str:
        return f"hierarchical(c1={self.c1:g}, c2={self.c2:g})"

    def cost(self, events: Columns):
        return self.c1 * events["exchanges"] + self.c2 * events["server_exchanges"]


@config
class Selection:
    """C_A N_A + C_R N_R + N_D: the price of selecting clients (Cost-aware client selection, section 3).

    N_A, N_R and N_D count the arbitrary, random and delegate selections. Asking a cohort again is an arbitrary selection.

    Args:
        arbitrary: C_A, the cost of an arbitrary selection, >= C_R.
        random: C_R, the cost of a random selection, >= 1.
        kind: The name of the price in configurations.

    Examples:
        >>> import turnout as t
        >>> events = {"draws_arbitrary": 2, "reasks": 1, "draws_random": 4, "draws_delegate": 10}
        >>> t.Selection(arbitrary=5.0, random=2.0).cost(events)
        33.0
    """

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
    """Payload bytes in both directions, summed over all contacted clients.

    Args:
        kind: The name of the price in configurations.

    Examples:
        >>> import turnout as t
        >>> t.Bytes().cost({"bytes_down": 800, "bytes_up": 200})
        1000
    """

    unit: ClassVar[str] = "bytes"
    kind: Literal["bytes"] = field(default="bytes", kw_only=True)

    @property
    def label(self) -> str:
        return "bytes"

    def cost(self, events: Columns):
        return events["bytes_down"] + events["bytes_up"]


@config
class Seconds:
    """latency * exchanges + bytes / bandwidth + query * the slowest clients' oracle calls: seconds under a simple link model.

    Args:
        latency: Seconds that each exchange waits, >= 0.
        bandwidth: Bytes per second through the server's link, > 0.
        query: Seconds of one oracle call, >= 0.
        kind: The name of the price in configurations.

    Examples:
        >>> import turnout as t
        >>> t.Seconds(latency=0.5, bandwidth=1000.0).cost(
        ...     {"exchanges": 12, "bytes_down": 800, "bytes_up": 200, "queries_slowest": 60}
        ... )
        7.0
    """

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


@config
class Clock:
    """Seconds on the clock of the run: that of `turnout.devices`, or in a federation the real one.

    Args:
        kind: The name of the price in configurations.

    Examples:
        >>> import turnout as t
        >>> t.Clock().cost({"seconds": 2.5})
        2.5
    """

    unit: ClassVar[str] = "seconds on the clock"
    kind: Literal["clock"] = field(default="clock", kw_only=True)

    @property
    def label(self) -> str:
        return "seconds on the clock"

    def cost(self, events: Columns):
        return events["seconds"]


@config
class LinearPrice:
    """A price for each event, added up: a_1 n_1 + a_2 n_2 + ... for the counts n_k of `ledger.EVENTS`.

    Args:
        exchanges: Price of an exchange, >= 0, as all the others.
        rejected: Of an exchange that a solver rejects, in addition.
        cohorts: Of a new cohort.
        contacts: Of a message to one client.
        draws_arbitrary: Of an arbitrary selection.
        draws_random: Of a random selection.
        draws_delegate: Of a delegate selection.
        reasks: Of another exchange with a cohort.
        queries_slowest: Of an oracle call of the slowest client of an exchange.
        queries_total: Of an oracle call of any client.
        bytes_down: Of a byte to a client.
        bytes_up: Of a byte to the server.
        seconds: Of a second on the clock.
        server_exchanges: Of an exchange that passes the server's own link, where there are hubs.
        server_contacts: Of a message that the server sends.
        server_bytes_down: Of a byte that the server sends.
        server_bytes_up: Of a byte that it receives.
        kind: The name of the price in configurations.

    Raises:
        UserError: If nothing has a price.

    Examples:
        >>> import turnout as t
        >>> price = t.LinearPrice(exchanges=10.0, contacts=0.5)
        >>> price.label, price.cost({"exchanges": 2, "contacts": 8})
        ('10 exchanges + 0.5 contacts', 24.0)
    """

    unit: ClassVar[str] = "the sum of what its events cost"
    kind: Literal["linear"] = field(default="linear", kw_only=True)
    exchanges: NonNegative = 0.0
    rejected: NonNegative = 0.0
    cohorts: NonNegative = 0.0
    contacts: NonNegative = 0.0
    draws_arbitrary: NonNegative = 0.0
    draws_random: NonNegative = 0.0
    draws_delegate: NonNegative = 0.0
    reasks: NonNegative = 0.0
    queries_slowest: NonNegative = 0.0
    queries_total: NonNegative = 0.0
    bytes_down: NonNegative = 0.0
    bytes_up: NonNegative = 0.0
    seconds: NonNegative = 0.0
    server_exchanges: NonNegative = 0.0
    server_contacts: NonNegative = 0.0
    server_bytes_down: NonNegative = 0.0
    server_bytes_up: NonNegative = 0.0

    def __post_init__(self):
        if not self._terms():
            raise UserError("price 'linear' needs an event that costs something: give one, such as contacts = 1.0")

    def _terms(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in EVENTS if getattr(self, name, 0.0)}

    @property
    def label(self) -> str:
        return " + ".join(
            f"{'' if price == 1 else f'{price:g} '}{name.replace('_', ' ')}" for name, price in self._terms().items()
        )

    def cost(self, events: Columns):
        return sum(price * events[name] for name, price in self._terms().items())


FORMER_KINDS = {"rounds": "exchanges"}
"""Former kinds that configurations and results may still contain, and their present names."""

KnownPrice = Union[Exchanges, Hierarchical, Selection, Bytes, Seconds, Clock, LinearPrice]


def price_of(given: Price | None) -> Price:
    """Return the price that was given, one for each exchange where none was; `UserError` for what has no cost.

    Args:
        given: What was given as a price.
    """
    price = Exchanges() if given is None else given
    if isinstance(price, type) or not callable(getattr(price, "cost", None)):
        raise UserError(f"price must be a price such as t.Bytes(), but it is {price!r}")
    return price


def cost_to_target(price: Price, trace: Columns, hit: int | None) -> float | None:
    """Return the cost at the trace row that reached a target.

    Args:
        price: The price of the events.
        trace: Cumulative counts by name, arrays [rows].
        hit: The number of the trace row, or None where the target was not reached.

    Returns:
        The cost in the unit of `price`, or None where `hit` is None.
    """
    return None if hit is None else float(np.asarray(price.cost(trace))[hit])
