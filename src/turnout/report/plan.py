"""Cost estimates as tables."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pydantic

from turnout.accounting.ledger import SERVER
from turnout.accounting.prices import Price
from turnout.engines.cost_estimate.estimate import Call, CostEstimate, Count, Memory
from turnout.engines.reply_usage import ALONE, EACH, SUMS
from turnout.report.format import amount, human_bytes, number

PLAN = pydantic.TypeAdapter(CostEstimate)
"""Converts a plan from and to JSON."""


@dataclass(frozen=True)
class NamedPlan:
    """A plan with the name of its configuration and the prices to report.

    Args:
        name: Name of the configuration.
        plan: Its cost estimate.
        prices: Prices to report.
    """

    name: str
    plan: CostEstimate
    prices: tuple[Price, ...]


def facts(estimate: NamedPlan) -> dict:
    """Return a plan for JSON: its calls, the memory of its parties, and its total cost at each price, as least and most."""
    costs = {price.label: estimate.plan.cost(price)._asdict() for price in estimate.prices}
    return {"name": estimate.name, **PLAN.dump_python(estimate.plan, mode="json"), "costs": costs}


class Grid(NamedTuple):
    """A table of strings; the first column names the rows.

    Args:
        title: Title of the table.
        headings: Heading of each column.
        rows: Cells of each row.
    """

    title: str
    headings: list[str]
    rows: list[list[str]]

    def longest_words(self) -> list[int]:
        """Return the length of the longest word of each column."""
        columns = zip(self.headings, *self.rows, strict=True)
        return [max(len(word) for cell in column for word in cell.split()) for column in columns]

    def turned(self) -> "Grid":
        """Return the table with its columns as rows."""
        headings, *rows = map(list, zip(self.headings, *self.rows, strict=True))
        return Grid(self.title, headings, rows)


def calls(estimate: NamedPlan) -> Grid:
    """Return a row for each call site: selections, exchanges, messages and replies."""
    asked = ["call", "exchanges", "clients each", "selections"]
    headings = [*asked, "a message", "a reply", "server reads", "queries of the slowest client"]
    asking = [call for call in estimate.plan.calls if call.site.level == 0]
    rows = [_call(call, estimate.plan.rounds) for call in asking]
    if any("microseconds" in call.counts for call in asking):
        headings.append("seconds of an exchange")
        rows = [[*row, _seconds(call.counts)] for row, call in zip(rows, asking, strict=True)]
    return Grid(f"{estimate.name}: calls", headings, rows)


def links(estimate: NamedPlan) -> list[Grid]:
    """Return a table of what passes the link above each level of hubs in a round; none without hubs."""
    passed, rate = estimate.plan.links(), 1 / max(estimate.plan.rounds, 1)
    if not passed:
        return []
    names = [*(f"hubs of level {level} and {level + 1}" for level in range(1, len(passed))), "hubs and server"]
    headings = ["between", "exchanges", "messages down", "replies up", "bytes down", "bytes up"]
    formats = [human_bytes if "bytes" in event else number for event in SERVER]
    rows = [
        [name, *(format_count(_scaled(link[event], rate), write) for event, write in zip(SERVER, formats, strict=True))]
        for name, link in zip(names, passed, strict=True)
    ]
    return [Grid(f"{estimate.name}: links in a round", headings, rows)]


def side_by_side(estimates: list[NamedPlan]) -> Grid:
    """Return a column for each plan: memory, events of a round, and the cost of all rounds."""
    plans = [estimate.plan for estimate in estimates]
    prices = dict.fromkeys(price for estimate in estimates for price in estimate.prices)
    totals = [plan.totals() for plan in plans]
    rows = [
        ["clients", *(number(plan.clients) for plan in plans)],
        ["bytes of a vector", *(human_bytes(plan.vector_bytes) for plan in plans)],
        ["memory of a client", *(_stored(plan.client) for plan in plans)],
        ["memory of the server", *(_stored(plan.server) for plan in plans)],
        ["sums of replies suffice", *("yes" if plan.sums_only else "no" for plan in plans)],
        ["rounds", *(number(plan.rounds) for plan in plans)],
    ]
    for what, event, write in EACH_ROUND:
        counts = [_scaled(total[event], 1 / max(plan.rounds, 1)) for plan, total in zip(plans, totals, strict=True)]
        if any(count.most != 0 for count in counts):
            rows.append([f"{what} a round", *(format_count(count, write) for count in counts)])
    for price in prices:
        rows.append(
            [f"cost, {price.label}", *(format_count(plan.cost(price), lambda cost, p=price: amount(p, cost)) for plan in plans)]
        )
    return Grid("Cost estimates", ["", *(estimate.name for estimate in estimates)], rows)


EACH_ROUND: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("exchanges", "exchanges", number),
    ("arbitrary selections", "draws_arbitrary", number),
    ("arbitrary selections of cohorts asked again", "reasks", number),
    ("random selections", "draws_random", number),
    ("delegate selections", "draws_delegate", number),
    ("vectors down", "vectors_down", number),
    ("vectors up", "vectors_up", number),
    ("bytes down", "bytes_down", human_bytes),
    ("bytes up", "bytes_up", human_bytes),
    ("queries of the slowest clients", "queries_slowest", number),
    ("queries of all clients", "queries_total", number),
    ("seconds on the clock", "seconds", number),
)
"""The rows on events of a round: name, event and format."""


def format_count(count: Count, write: Callable[[float], str] = number) -> str:
    """Format a count: "≈" marks the mean of a random count, "at most" a bound on a count that depends on the data.

    Args:
        count: The count.
        write: Formats a number.
    """
    if count.most is None:
        return "depends on data" if count.least == 0 else f"depends on data, at least {write(count.least)}"
    near = "≈ " if count.error else ""
    bound = "at most " if count.least < count.most else ""
    return f"{bound}{near}{write(count.most)}"


def markdown(grid: Grid) -> str:
    """Return a grid as a Markdown table below its title."""
    lines = [grid.headings, ["---", *("---:" for _ in grid.headings[1:])], *grid.rows]
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    return f"**{grid.title}**\n\n{table}\n"


def message(vectors: float, size: float) -> str:
    """Format the size of one message; a draw has no message.

    Args:
        vectors: Number of vectors shaped like the parameters.
        size: Bytes.
    """
    if not vectors:
        return human_bytes(size) if size else "–"
    return f"{number(vectors)} vector{'' if vectors == 1 else 's'}, {human_bytes(size)}"


def _call(call: Call, rounds: int) -> list[str]:
    site, counts = call.site, call.counts
    first = site.path.startswith("start.")
    rate, when = (1.0, " at the start") if first else (1 / max(rounds, 1), "")

    def each(event: str) -> Count:
        return _scaled(counts.get(event, Count(0.0, 0.0)), rate)

    kinds = [(each(f"draws_{site.selection}"), site.selection), (each("reasks"), "arbitrary, asked again")]
    selections = ", ".join(f"{kind}: {format_count(count)}" for count, kind in kinds if count.most != 0)
    return [
        f"{site.method} ({site.selection})",
        "–" if "exchanges" not in counts else format_count(each("exchanges")) + when,
        _per_exchange(counts),
        selections + when if selections else "–",
        message(site.vectors_down, site.bytes_down),
        message(site.vectors_up, site.bytes_up),
        _reductions(call),
        "–" if "exchanges" not in counts else format_count(each("queries_slowest")),
    ]


def _reductions(call: Call) -> str:
    """Return which reductions the server applies to the replies."""
    if EACH in call.uses:
        return "each reply"
    if "exchanges" not in call.counts:
        return "–"
    if ALONE in call.uses:
        return "one client's reply"
    return ("nothing", "a sum", "two sums")[len({*SUMS} & {*call.uses})]


def _per_exchange(counts: dict[str, Count]) -> str:
    """Return the mean number of clients in an exchange."""
    exchanges, contacts = (counts.get(event, Count(0.0, 0.0)) for event in ("exchanges", "contacts"))
    if "contacts" not in counts:
        # Replies to requests that were sent before.
        contacts = counts.get("arrivals", contacts)
    if not exchanges.most or contacts.most is None:
        return "–"
    mean = contacts.most / exchanges.most
    return format_count(Count(mean, mean, contacts.error))


def _seconds(counts: dict[str, Count]) -> str:
    """Return the mean duration of an exchange."""
    exchanges, taken = (counts.get(event, Count(0.0, 0.0)) for event in ("exchanges", "microseconds"))
    if not exchanges.most or "microseconds" not in counts:
        return "–"
    return format_count(_scaled(taken, 1e-6 / exchanges.most))


def _scaled(count: Count, factor: float) -> Count:
    return Count(count.least * factor, None if count.most is None else count.most * factor, count.error * factor)


def _stored(memory: Memory) -> str:
    return message(memory.vectors, memory.bytes) if memory.bytes else "nothing"
