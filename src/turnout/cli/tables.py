"""Results as tables in the terminal."""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from turnout.report.result import Result
from turnout.report.table import cost_rows

console = Console()


def show(results: list[Result], folder: Path) -> None:
    """Print what the target cost each run, and where the report is."""
    rows = cost_rows(results)
    prices = list(dict.fromkeys(label for row in rows for label in row.costs))
    table = Table(title="Cost to the target", title_justify="left")
    for column in ("run", "rounds", "target", *prices):
        table.add_column(column, justify="left" if column == "run" else "right")
    for row, result in zip(rows, results, strict=True):
        costs = (f"{row.costs[label]:,.6g}" if row.costs.get(label) is not None else "not reached" for label in prices)
        table.add_row(row.label, f"{result.summary['rounds']:,}", row.target, *costs)
    console.print(table)
    console.print(f"report: {folder / 'report.html'}", soft_wrap=True)


def show_sweep(folder: Path) -> None:
    """Print the settings of a sweep, cheapest first, and where the report is."""
    facts = json.loads((folder / "summary.json").read_text())
    label, rows = next(iter(facts["sweep"]["costs"].items()))
    table = Table(title=f"Cost to the target, {label}: median over seeds", title_justify="left")
    for column in rows[0]:
        table.add_column("seeds that reached it" if column == "reached" else column, justify="right")
    for row in rows[:20]:
        table.add_row(*(f"{value:,.6g}" if isinstance(value, (int, float)) else "not reached" for value in row.values()))
    console.print(table)
    console.print(f"report: {folder / 'report.html'}", soft_wrap=True)
