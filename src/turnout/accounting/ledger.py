"""The ledger: counts of a run's events at each call site of its algorithm. Prices are applied to it afterwards."""

from dataclasses import dataclass
from typing import Any

COUNTERS = (
    "draws_arbitrary",
    "draws_random",
    "draws_delegate",
    "available",
    "drawn",
    "lost",
    "exchanges",
    "rejected",
    "cohorts",
    "reasks",
    "contacts",
    "arrivals",
    "aggregated",
    "unusable",
    "missed",
    "queries_slowest",
    "queries_total",
    "microseconds",
)
"""The events that a run counts at each call site.

draws_arbitrary, draws_random, draws_delegate: selections of each kind.
available, drawn: clients that a draw could choose from, and clients drawn, summed over draws.
lost: clients drawn beyond the capacity of a cohort.
exchanges: messages to a cohort that is not empty.
rejected: exchanges for trial points that a line search rejected.
cohorts: exchanges with a new cohort.
reasks: arbitrary selections charged for asking a cohort again.
contacts, arrivals: messages sent to clients, and replies received.
aggregated: replies given to the algorithm.
unusable: feedback to a sampler that was negative, NaN or infinite; at a draw, places with a client that does not exist or is
drawn twice, or without a valid probability.
missed: local problems solved less accurately than asked for.
queries_slowest, queries_total: oracle calls of the slowest client, summed over exchanges, and of all clients.
microseconds: duration of the exchanges, by the clock of `turnout.devices` or in a federation the real one; zero without either.
"""

EVENTS = (*COUNTERS, "iterations", "vectors_down", "vectors_up", "bytes_down", "bytes_up", "seconds")
"""The counters and the events derived from them.

iterations: exchanges less the rejected ones, as papers count that do not charge line searches.
vectors_down, vectors_up: arrays or pytrees of the shape of the parameters, sent to clients and back.
bytes_down, bytes_up: payload bytes in the same directions.
seconds: microseconds / 10^6.
"""


NEW = ("microseconds", "seconds")
"""Events that results of earlier versions lack, in which they are zero."""


OTHERS = ("draw", "send", "decrypt", "wait", "ranks")
"""What else is counted: draws, requests in flight that could not be sent, decryptions of sums, waiting, and the messages of an
exchange to clients whose adapters have a larger rank than the smallest one, with their replies."""


@dataclass(frozen=True)
class Site:
    """A call site: one place in an algorithm that draws or exchanges, and the size of one message and one reply there.

    Args:
        path: The number of the call within the algorithm, nested calls after a dot.
        method: The name of the local method, or one of `OTHERS`.
        selection: How the cohort is selected: "arbitrary", "random" or "delegate".
        vectors_down: Arrays or pytrees of the parameters' shape in a message.
        vectors_up: The same in a reply.
        bytes_down: Payload bytes of a message.
        bytes_up: Payload bytes of a reply.
    """

    path: str
    method: str
    selection: str
    vectors_down: int = 0
    vectors_up: int = 0
    bytes_down: int = 0
    bytes_up: int = 0


@dataclass(frozen=True)
class Ledger:
    """The event counts of a run by call site.

    Args:
        sites: The call sites.
        counts: For each site one count for each name in `COUNTERS`: a Python integer, or an array [rows] of them.

    Examples:
        >>> site = Site("0", "train", "random", bytes_down=80, bytes_up=80)
        >>> ledger = Ledger((site,), (tuple({"exchanges": 2, "contacts": 6, "arrivals": 6}.get(name, 0) for name in COUNTERS),))
        >>> ledger.totals()["exchanges"], ledger.totals()["bytes_up"]
        (2, 480)
    """

    sites: tuple[Site, ...]
    counts: tuple[tuple[Any, ...], ...]

    def rows(self) -> list[dict]:
        """Return a dictionary for each call site with the fields of its `Site` and its counts by name."""
        return [
            {**vars(site), **dict(zip(COUNTERS, counts, strict=True))}
            for site, counts in zip(self.sites, self.counts, strict=True)
        ]

    def totals(self) -> dict[str, Any]:
        """Return the count of each event in `EVENTS`, summed over the call sites."""
        rows = self.rows()
        totals = {name: sum(row[name] for row in rows) for name in COUNTERS}
        totals["iterations"] = totals["exchanges"] - totals["rejected"]
        for unit in ("vectors", "bytes"):
            for way, moved in (("down", "contacts"), ("up", "arrivals")):
                totals[f"{unit}_{way}"] = sum(row[f"{unit}_{way}"] * row[moved] for row in rows)
        totals["seconds"] = totals["microseconds"] / 1e6
        return totals
