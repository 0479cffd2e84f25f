"""Tables of results in the terminal."""

from datetime import UTC, datetime
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from turnout.accounting.prices import Price
from turnout.cli.as_json import echo_summary
from turnout.report.costs import EVENTS, costs_of
from turnout.report.format import amount, goal, human_bytes
from turnout.report.headline import stall
from turnout.report.loaded_run import Result

if TYPE_CHECKING:
    from turnout.engines.flower.greeting import MemberStatus
    from turnout.federation.status import Status
    from turnout.planner.plan import Plan
    from turnout.studies.study import Study
    from turnout.studies.tables import Row

console = Console()

UNSEEN = [EVENTS[name] for name in ("cohorts", "bytes_down", "bytes_up")]
"""The headings of counts that only the report shows."""

LONG_AGO = 120.0
"""Seconds without a new status after which a server may have ended."""

NARROW = 60
"""Characters of a line below which numbers may go over several lines."""

LONGEST = 20
"""The most rows of a problem that a terminal shows."""


def warn(warnings: list[str]) -> None:
    """Print warnings to the standard error."""
    for warning in warnings:
        typer.echo(f"turnout: warning: {warning}", err=True)


def show(folder: Path, as_json: bool) -> None:
    """Print the cost of the run in `folder` to its target, and the path of the report; or its summary as JSON."""
    if as_json:
        echo_summary(folder)
        return
    costs = costs_of(Result.read(folder))
    shown = Table(title=f"Cost to {goal(costs.target)}" if costs.target else "Cost of the run", title_justify="left")
    shown.add_column("run", overflow="fold")
    cells = {heading: cell for heading, cell in costs.cells.items() if heading not in UNSEEN}
    for heading in ("outcome", *cells):
        shown.add_column(heading, justify="right", overflow="fold")
    shown.add_row(escape(costs.label), costs.outcome, *cells.values())
    console.print(shown)
    for sentence in stall(costs):
        console.print(escape(sentence))
    show_report(folder)


def show_report(folder: Path) -> None:
    """Print the path of the report in `folder`, if there is one."""
    if (path := folder / "report.html").exists():
        console.print(f"report: {path}", soft_wrap=True)


def show_log(file: Path, entries: list[dict]) -> None:
    """Print the entries of a node's log, and the digest of the last."""
    shown = Table(title=escape(str(file)), title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("line", "time", "run", "asked", "what", "answer", "bytes in", "bytes out", "epsilon"):
        right = heading in ("line", "run", "bytes in", "bytes out", "epsilon")
        shown.add_column(heading, justify="right" if right else "left", overflow="fold")
    for entry in entries:
        answer = " ".join(str(entry[name]) for name in ("answer", "reference") if name in entry)
        epsilon = "" if entry.get("epsilon") is None else f"{entry['epsilon']:.4g}"
        cells = (entry["time"], entry["run"], entry["asked"], entry.get("header", ""), answer)
        sizes = (entry.get(name, "") for name in ("request_bytes", "reply_bytes"))
        shown.add_row(str(entry["line"]), *(escape(str(cell)) for cell in (*cells, *sizes)), epsilon)
    console.print(shown)
    end = f"{len(entries)} lines, the last with the digest {entries[-1]['digest']}" if entries else "no lines"
    console.print(f"as the node wrote it: {end}", soft_wrap=True)


def show_members(members: list[dict], notes: list[str]) -> None:
    """Print the clients of a federation, a row for each, and notes."""
    shown = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("client", "name", "rows", "key", "status"):
        shown.add_column(heading, justify="right" if heading in ("client", "rows") else "left", overflow="fold")
    for member in members:
        shown.add_row(*(escape(str(cell)) for cell in (member | {"rows": member["rows"] or ""}).values()))
    console.print(shown)
    for note in notes:
        console.print(escape(note), soft_wrap=True)


def on_terminal() -> bool:
    """Return whether the output is a terminal."""
    return console.is_terminal


def show_status(status: "Status", again: bool) -> None:
    """Print the status of a run that a server serves, on a terminal in the place of the status before.

    Args:
        status: The status.
        again: Whether a status has been printed before.
    """
    if again and console.is_terminal:
        console.clear()
    age = (datetime.now(UTC) - status.written).total_seconds()
    over = status.state in ("finished", "stopped")
    ago = f"on {status.written:%Y-%m-%d %H:%M:%S} UTC" if over else f"{max(0, age):.0f} s ago"
    console.print(escape(f"{status.name}: {status.state}, round {status.round:,} of {status.rounds:,} (written {ago})"))
    if status.why:
        console.print(escape(status.why))
    if not over and age > LONG_AGO:
        console.print("the server has written nothing since then: it waits for an exchange, or has ended")
    if status.hubs:
        console.print(_members("hub", "clients", status.hubs))
    console.print(_members("client", "rows", status.members))
    for reason, count in status.unusable_replies.items():
        console.print(escape(f"{count} replies: {reason}"))
    console.print(f"{status.bytes_down:,} bytes to the clients, {status.bytes_up:,} bytes from them")
    if status.epsilon is not None:
        console.print(f"epsilon = {status.epsilon:.4g} for delta = {status.delta:g}")


def _members(kind: str, counted: str, members: "list[MemberStatus]") -> Table:
    """Return a table of clients or hubs, whose column `counted` has their rows or clients."""
    shown = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in (kind, "name", "status", counted, "refused"):
        shown.add_column(heading, justify="left" if heading in ("name", "status") else "right", overflow="fold")
    for i, member in enumerate(members):
        cells = (member.name, member.standing, str(member.rows or ""), str(member.refused or ""))
        shown.add_row(str(i), *map(escape, cells))
    return shown


def show_plan(plan: "Plan", folder: Path) -> None:
    """Print the ranking of a plan, what it says, and where its files are."""
    from turnout.planner.page import sentences
    from turnout.planner.plan import BEST

    shown = Table(
        title=escape(f"Cost to {plan.target}, {plan.price.label}"),
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for heading in ("family", "setting"):
        shown.add_column(heading, overflow="fold", ratio=1)
    _add_numbers(shown, "cost", "95 % interval", "reached")
    for row in plan.ranking.iter_rows(named=True):
        cost, low, high = (amount(plan.price, row[name]) for name in ("cost", "interval_low", "interval_high"))
        shown.add_row(escape(row["title"]), escape(row["setting"]), cost, f"{low} – {high}", f"{row['reached']}/{row['seeds']}")
    console.print(shown)
    for sentence in sentences(plan):
        console.print(escape(sentence))
    show_report(folder)
    console.print(f"to run it: turnout run {folder / BEST} --out DIR", soft_wrap=True)


def show_before_runs(ranking: pl.DataFrame, price: Price) -> None:
    """Print what a round of each family costs, and what its clients keep."""
    shown = Table(title=escape(f"A round, {price.label}"), title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    shown.add_column("family", overflow="fold", ratio=1)
    _add_numbers(shown, "price", "a client keeps", "sums suffice")
    for family, cost, kept, sums in ranking.iter_rows():
        shown.add_row(
            escape(family), amount(price, cost) if isfinite(cost) else "no bound", human_bytes(kept), "yes" if sums else "no"
        )
    console.print(shown)
    console.print("No run was played: the price of a round says nothing about how many rounds the target takes.")


def show_study(study: "Study", folder: Path) -> None:
    """Print the first table of a study, problem by problem, its verdicts, what broke, and where all tables are."""
    from turnout.studies.plan import name_of

    for run, why in study.broken:
        console.print(f"[bold red]broken[/]: {escape(name_of(run))}: {escape(why)}")
    if study.budget is not None:
        named = f"; {folder / 'summary.json'} names them" if study.budget.not_played else ""
        console.print(escape(f"budget: {study.budget}{named}"), soft_wrap=True)
    if study.declaration.goals and not study.runs.is_empty():
        costs = study.table()
        console.print(f"[bold]{escape(costs.title)}[/]")
        for problem, rows in groupby(costs.rows, key=lambda row: row.problem):
            console.print(_study_table(problem, list(rows)[:LONGEST], costs.headings))
        for note in costs.notes:
            console.print(escape(note))
        for price in list(study.declaration.prices)[1:]:
            for note in study.table(price=price).notes[:-1]:
                console.print(escape(f"{price}: {note}"))
        for verdict in study.claims():
            console.print(escape(f"{verdict}."))
        console.print(f"tables: {folder / 'tables'}", soft_wrap=True)
    show_report(folder)
    console.print(f"runs: {folder / 'runs.parquet'}", soft_wrap=True)


def _study_table(problem: str, rows: "list[Row]", headings: tuple[str, ...]) -> Table:
    """Return the table of one problem; long names go over several lines."""
    shown = Table(title=escape(problem), title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("method", "setting"):
        shown.add_column(heading, overflow="fold", ratio=1)
    _add_numbers(shown, *headings[3:])
    for row in rows:
        cost = f"[bold]{row.cost}[/]" if row.wins else row.cost
        shown.add_row(escape(row.method), escape(row.setting), cost, row.quartiles, row.interval, row.reached)
    return shown


def _add_numbers(shown: Table, *headings: str) -> None:
    """Add columns of numbers, which only a narrow terminal breaks, and none cuts."""
    for heading in headings:
        shown.add_column(heading, justify="right", no_wrap=console.width >= NARROW, overflow="fold")
