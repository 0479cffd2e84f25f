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

SERVER = {
    "server_exchanges": "cohorts",
    "server_contacts": "contacts",
    "server_arrivals": "arrivals",
    "server_bytes_down": "bytes_down",
    "server_bytes_up": "bytes_up",
}
"""What passes the server's own link, and the events that these are without hubs."""

EVENTS = (*COUNTERS, "iterations", "vectors_down", "vectors_up", "bytes_down", "bytes_up", "seconds", *SERVER)
"""The counters and the events derived from them.

iterations: exchanges less the rejected ones, as papers count that do not charge line searches.
vectors_down, vectors_up: arrays or pytrees of the shape of the parameters, sent to clients and back.
bytes_down, bytes_up: payload bytes in the same directions.
seconds: microseconds / 10^6.
server_exchanges: exchanges that pass the server's own link; without hubs those with a new cohort, as if it had a hub of its own.
server_contacts, server_arrivals: messages that the server sends, one to each hub, and replies that it receives: a sum from each
hub, or each reply.
server_bytes_down, server_bytes_up: their payload bytes.
"""

NEW: dict[str, str | None] = {"microseconds": None, "seconds": None, **SERVER}
"""Events that results of earlier versions lack, and what they are there: another event, or None for zero."""

OTHERS = ("draw", "send", "decrypt", "wait", "ranks", "link")
"""What else is counted: draws, requests in flight that could not be sent, decryptions of sums, waiting, messages of an exchange
to clients whose adapters have a larger rank than the smallest one, with their replies, and what passes the link above hubs."""


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
        level: 0 for messages to clients; k for those that pass the link above the hubs of level k. There `contacts` counts
            messages to hubs, `drawn` the clients that they are for, and `arrivals` what comes back.
        bytes_each: Payload bytes of what each client is sent for itself, on a link: a message to a hub has all of these parts.
    """

    path: str
    method: str
    selection: str
    vectors_down: int = 0
    vectors_up: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    level: int = 0
    bytes_each: int = 0


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
        every = self.rows()
        rows = [row for row in every if row["level"] == 0]
        totals = {name: sum(row[name] for row in rows) for name in COUNTERS}
        totals["iterations"] = totals["exchanges"] - totals["rejected"]
        for unit in ("vectors", "bytes"):
            for way, moved in (("down", "contacts"), ("up", "arrivals")):
                totals[f"{unit}_{way}"] = sum(row[f"{unit}_{way}"] * row[moved] for row in rows)
        totals["microseconds"] = sum(row["microseconds"] for row in every)
        totals["seconds"] = totals["microseconds"] / 1e6
        passed = next(reversed(self.links()), {})
        return totals | {name: passed.get(name, totals[flat]) for name, flat in SERVER.items()}

    def peaks(self) -> dict[str, int]:
        """Return the bytes of the largest message to a client and of the largest reply: `bytes_down` and `bytes_up`.

        The totals tell how much travels in a run; these tell how much a link must carry at once.
        """
        rows = [row for row in self.rows() if row["level"] == 0]
        ways = (("bytes_down", "contacts"), ("bytes_up", "arrivals"))
        return {size: max((row[size] for row in rows if row[moved]), default=0) for size, moved in ways}

    def links(self) -> list[dict[str, Any]]:
        """Return what passes the link above each level of hubs, the lowest first: the last one is the server's own.

        Each has the events of `SERVER`, and its seconds on the clock; without hubs there are none.
        """
        rows = [row for row in self.rows() if row["level"]]
        parts = []
        for level in range(1, 1 + max((row["level"] for row in rows), default=0)):
            here = [row for row in rows if row["level"] == level]
            counts = [sum(row[name] for row in here) for name in ("exchanges", "contacts", "arrivals")]
            down = sum(row["bytes_down"] * row["contacts"] + row["bytes_each"] * row["drawn"] for row in here)
            up = sum(row["bytes_up"] * row["arrivals"] for row in here)
            seconds = sum(row["microseconds"] for row in here) / 1e6
            parts.append({**dict(zip(SERVER, (*counts, down, up), strict=True)), "seconds": seconds})
        return parts
