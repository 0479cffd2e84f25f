"""The ledger: what was sent, to whom and how it was selected, as events per call site; prices come later."""

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
)
"""What a run counts at each call site.

draws_*: selections of each kind. available, drawn: clients that each draw could choose from, and chose. lost: clients drawn
beyond a cohort's places. exchanges: messages to a non-empty cohort. rejected: those of them that were rejected trial points of a
line search. cohorts: exchanges whose cohort was fresh. reasks: arbitrary selections charged for asking a cohort again. contacts,
arrivals: messages sent and replies that came. aggregated: replies that the algorithm was given. unusable: feedback to a sampler
that was negative, NaN or infinite; at a draw, places with a client that does not exist or is drawn twice, or without a valid
probability. missed: local problems not solved as well as wanted. queries_slowest, queries_total: oracle
calls of the slowest client, summed over exchanges, and of all clients.
"""

EVENTS = (*COUNTERS, "iterations", "vectors_down", "vectors_up", "bytes_down", "bytes_up")
"""The counters and what follows from them: iterations are exchanges less the rejected ones, as papers count that let a line
search go free; vectors are arrays or pytrees shaped like the parameters."""


@dataclass(frozen=True)
class Site:
    """One place in an algorithm's text that draws or exchanges, and what one message and one reply hold there."""

    path: str
    method: str
    selection: str
    vectors_down: int = 0
    vectors_up: int = 0
    bytes_down: int = 0
    bytes_up: int = 0


@dataclass(frozen=True)
class Ledger:
    """The counts [sites, counters] of a run: Python integers, which do not overflow, or arrays of them, one for each row."""

    sites: tuple[Site, ...]
    counts: tuple[tuple[Any, ...], ...]

    def rows(self) -> list[dict]:
        """Return one mapping per call site: where it is, what it sends, and what was counted there."""
        return [
            {**vars(site), **dict(zip(COUNTERS, counts, strict=True))}
            for site, counts in zip(self.sites, self.counts, strict=True)
        ]

    def totals(self) -> dict[str, Any]:
        """Return every event of `EVENTS`, summed over the call sites."""
        rows = self.rows()
        totals = {name: sum(row[name] for row in rows) for name in COUNTERS}
        totals["iterations"] = totals["exchanges"] - totals["rejected"]
        for what, moves in (("vectors", ("contacts", "arrivals")), ("bytes", ("contacts", "arrivals"))):
            for way, moved in zip(("down", "up"), moves, strict=True):
                totals[f"{what}_{way}"] = sum(row[f"{what}_{way}"] * row[moved] for row in rows)
        return totals
