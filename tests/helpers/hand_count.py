"""The ledger of a run, worked out by hand from the exchanges that an example lists."""

import turnout as t
from tests.helpers.examples import Exchange

COHORT = 4
"""Clients in a fresh cohort, drawn by `Nice`."""


def expected_totals(start: tuple[Exchange, ...], round: tuple[Exchange, ...], rounds: int, problem: t.Problem) -> dict:
    """Return the totals of `rounds` rounds with cohorts of `COHORT` of the clients; queries only where none is up to chance."""
    n, vector = problem.clients, 8 * problem.start(None).size
    totals = dict.fromkeys(ZERO, 0)
    for exchange in (*start, *rounds * round):
        fresh = exchange.who != "again"
        clients = {"everyone": n, "one": 1, "delegate": 1}.get(exchange.who, COHORT)
        # A pass over everyone asks as many at a time as a cohort has.
        selections = -(-n // COHORT) if exchange.who == "everyone" else 1
        kind = {"everyone": "arbitrary", "delegate": "delegate"}.get(exchange.who, "random")
        totals[f"draws_{kind}"] += selections * fresh
        totals["available"] += n * fresh
        totals["drawn"] += clients * fresh
        totals["cohorts"] += fresh
        totals["reasks"] += 0 if fresh else selections
        for event in ("exchanges", "iterations"):
            totals[event] += 1
        for event in ("contacts", "arrivals", "aggregated"):
            totals[event] += clients
        totals["queries_slowest"] += exchange.queries or 0
        totals["queries_total"] += clients * (exchange.queries or 0)
        totals["vectors_down"] += clients * exchange.down
        totals["vectors_up"] += clients * exchange.up
        totals["bytes_down"] += clients * (exchange.down * vector + exchange.bytes_down)
        totals["bytes_up"] += clients * (exchange.up * vector + 8 * exchange.scalars_up + exchange.bytes_up)
    if any(exchange.queries is None for exchange in (*start, *round)):
        del totals["queries_slowest"], totals["queries_total"]
    return totals


ZERO = (
    "draws_arbitrary",
    "draws_random",
    "draws_delegate",
    "available",
    "drawn",
    "lost",
    "exchanges",
    "rejected",
    "iterations",
    "cohorts",
    "reasks",
    "contacts",
    "arrivals",
    "aggregated",
    "unusable",
    "missed",
    "queries_slowest",
    "queries_total",
    "vectors_down",
    "vectors_up",
    "bytes_down",
    "bytes_up",
    "microseconds",
    "seconds",
)
