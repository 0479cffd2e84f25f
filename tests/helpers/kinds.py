"""The table of docs/configuration.md from kinds to Python classes; `python -m tests.helpers.kinds` writes it anew."""

from pathlib import Path

import turnout
import turnout.data
import turnout.data.splits
import turnout.problems
from turnout.experiment.registry import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
BEGIN, END = "<!-- kinds -->\n", "<!-- end of kinds -->\n"
PLACES = {
    "t": turnout,
    "t.solvers": turnout.solvers,
    "t.client_solvers": turnout.client_solvers,
    "t.optimisers": turnout.optimisers,
    "t.codecs": turnout.codecs,
    "t.schedules": turnout.schedules,
    "t.devices": turnout.devices,
    "turnout.problems": turnout.problems,
    "turnout.data": turnout.data,
    "turnout.data.splits": turnout.data.splits,
}


def public_name(cls: type) -> str:
    """Return the shortest public name of a class; of the class of a `[problem]` table that of the problem it builds."""
    if cls.__name__.endswith("Spec"):
        name = cls.__name__.removesuffix("Spec")
        return next(f"{place}.{name}" for place, module in PLACES.items() if hasattr(module, name))
    return next(f"{place}.{cls.__name__}" for place, module in PLACES.items() if getattr(module, cls.__name__, None) is cls)


def kinds_table() -> str:
    """Return the table in Markdown: a row for each table of a configuration."""
    lines = ["| table | kinds and classes |", "| --- | --- |"]
    for table, kinds in TABLES.items():
        lines.append(f"| {table} | {', '.join(f'`{kind}`: `{public_name(cls)}`' for kind, cls in kinds.items())} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Replace the table in docs/configuration.md."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{kinds_table()}{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
