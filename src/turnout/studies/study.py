"""`Study`: a study that was played, with its files and its picture in a notebook."""

from dataclasses import dataclass
from pathlib import Path

from turnout.report.notebook import shown, svg
from turnout.studies.files import write_files
from turnout.studies.overview import matrix, matrix_html, style
from turnout.studies.pictures import figures_of
from turnout.studies.results import Results


@dataclass(frozen=True)
class Study(Results):
    """A study that was played.

    Args:
        declaration: What was declared.
        runs: One row for each evaluated round of each run: problem, method, setting, a column for each swept key, seed, purpose,
            round, metrics and the cumulative events of the ledger.
        broken: Each run that could not be played, and why.
        cases: Its problems.
        budget: What the runs could spend, and what that left out; None without a limit.

    Examples:
        >>> import turnout as t
        >>> played = t.study({
        ...     "seeds": 3,
        ...     "run": {"rounds": 5},
        ...     "problems": {"made": t.Quadratic.random(12, 5)},
        ...     "methods": {"gd": t.Gd(t.Full(), lr=0.1)},
        ...     "goals": {"near": {"metric": "gradient", "share": 0.5}},
        ... })
        >>> played.runs["seed"].n_unique(), len(played.broken)
        (3, 0)
    """

    def write(self, folder: Path, command: str) -> None:
        """Write tables, figures, a page and a summary to `folder`."""
        write_files(self, folder, command)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first table as a matrix, and the first chart of the first figure."""
        table = self.table() if self.declaration.goals and not self.runs.is_empty() else None
        drawing = next((drawing for drawn in figures_of(self) for drawing in drawn.drawings), None)
        if table is None or not table.rows:
            return shown([self.declaration.title], [], drawing)
        if content := matrix(table):
            chart = svg(drawing) if drawing is not None and drawing.lines else ""
            return f"<div>{style()}{matrix_html(content)}{chart}</div>"
        return shown(table.headings, [row.cells(str) for row in table.rows], drawing)
