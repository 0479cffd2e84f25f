"""Run the benchmarks, print one table, write every timing: `python -m benchmarks [TOPIC ...] [--out FILE] [--history FILE]`."""

import argparse
import csv
import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import facts, versions
from benchmarks.timing import Line

TOPICS = (
    "rounds", "draws", "codecs", "asynchronous", "sweeps", "studies", "recompiles", "memory", "index", "dual", "femnist",
    "answers", "startup", "crowded", "parsing", "torch-clients", "language", "encryption",
)  # fmt: skip
NAMED = (
    "peers", "accelerator", "auto-lr", "disk", "mesh", "flower", "flower-memory", "flower-node-memory", "flower-delay", "planner",
    "fedavg-rounds",
)  # fmt: skip
"""Topics that start several processes, or take hours; they are measured where they are named."""

VERDICTS = {True: "[green]pass[/]", False: "[red]FAIL[/]", None: ""}


def main() -> int:
    """Measure the topics asked for; the exit code is 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure ratios and hold them to bars.")
    parser.add_argument(
        "topics", nargs="*", metavar="TOPIC", help=f"some of {', '.join(TOPICS)}, all if none is given, or of {', '.join(NAMED)}"
    )
    parser.add_argument("--out", type=Path, default=Path("bench/results.json"), help="file for the results (JSON)")
    parser.add_argument("--history", type=Path, help="file to which a row for each number is added (CSV)")
    options = parser.parse_args()
    # The sides of a topic are processes that share an accelerator.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    unknown = sorted(set(options.topics) - {*TOPICS, *NAMED})
    if unknown:
        parser.error(f"unknown topic {unknown[0]!r}: known are {', '.join((*TOPICS, *NAMED))}")
    results = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": "python -m benchmarks " + " ".join(sys.argv[1:]),
        "machine": facts(),
        "versions": versions(),
    }
    console = Console(stderr=True)
    lines: list[Line] = []
    for topic in options.topics or TOPICS:
        with console.status(f"measuring {topic}"):
            lines += import_module(f"benchmarks.{topic.replace('-', '_')}").measure()
    results["lines"] = [{**asdict(line), "passed": line.passed} for line in lines]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if options.history:
        add_to(options.history, lines)
    # Elsewhere than in a terminal rich takes 80 columns, too few for the notes.
    Console(width=None if sys.stdout.isatty() else 150).print(table_of(lines))
    print(f"every timing is in {options.out}")
    return 1 if any(line.passed is False for line in lines) else 0


def add_to(history: Path, lines: list[Line]) -> None:
    """Add a row for each number to a CSV file, with the commit that gave it."""
    # What turnout sets for its processes is not for those of all topics.
    from turnout.experiment.provenance import commit, machine

    made = {"date": datetime.now(UTC).date().isoformat(), "commit": commit(), "machine": machine()}
    new = not history.exists()
    with history.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*made, "what", "measured", "bar"], lineterminator="\n")
        if new:
            writer.writeheader()
        for line in lines:
            number = None if line.measured is None else f"{line.measured:.3g}"
            writer.writerow({**made, "what": line.what, "measured": number, "bar": line.bar})


def table_of(lines: list[Line]) -> Table:
    """Return the table of all lines."""
    table = Table(box=None, pad_edge=False)
    for name, justify in (("topic", "left"), ("what", "left"), ("measured", "right"), ("bar", "right"), ("", "left")):
        table.add_column(name, justify=justify)
    table.add_column("note", style="dim")
    for line in lines:
        table.add_row(line.topic, line.what, measured(line), bar(line), VERDICTS[line.passed], line.note)
    return table


def measured(line: Line) -> str:
    """Write the measured number."""
    return "-" if line.measured is None else f"{line.measured:.3g} {line.unit}".rstrip()


def bar(line: Line) -> str:
    """Write the bar."""
    return "" if line.bar is None else f"{'>=' if line.at_least else '<='} {line.bar:g}"


if __name__ == "__main__":
    sys.exit(main())
