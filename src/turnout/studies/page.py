"""The page of a study."""

import json
from itertools import groupby
from typing import Any

from turnout.experiment.provenance import provenance
from turnout.report.html import TEMPLATES, script_json
from turnout.report.lines import chart
from turnout.report.theme import DARK, LIGHT, config
from turnout.report.vega import script
from turnout.studies.exhibits import Exhibit, OwnChart
from turnout.studies.overview import Matrices, forest_html, matrix_html, style
from turnout.studies.pictures import Drawn
from turnout.studies.result_types import StudySummary
from turnout.studies.results import Results
from turnout.studies.tables import Tables

LONGEST = 400
"""The most letters with which an object that was given in Python is shown."""


def page(
    study: Results, tables: Tables, matrices: Matrices, figures: list[Drawn], exhibits: list[Exhibit], facts: StudySummary
) -> str:
    """Return the page as HTML that needs nothing but itself.

    Args:
        study: The study.
        tables: Its tables by the names of goal and price.
        matrices: The tables that are matrices, as `overview.matrix` returns them, by the same names.
        figures: Its figures.
        exhibits: Its own tables and charts.
        facts: Its summary.
    """
    declared = study.declaration
    charts = {
        f"{drawn.key}/{k}": {"spec": chart(drawing, drawn.styles), "lines": [vars(line) for line in drawing.lines]}
        for drawn in figures
        for k, drawing in enumerate(drawn.drawings)
    }
    charts |= {one.name: {"spec": one.chart} for one in exhibits if isinstance(one, OwnChart)}
    return TEMPLATES.get_template("study.html").render(
        title=declared.title,
        goals={name: goal.words for name, goal in declared.goals.items()},
        levelled={name: goal.levelled for name, goal in declared.goals.items()},
        prices={name: price.label for name, price in declared.prices.items()},
        counts=_counts(study, facts["runs"]),
        tables=[
            (
                *names,
                table,
                matrix_html(matrices[names]) if names in matrices else "",
                [(problem, list(rows)) for problem, rows in groupby(table.rows, key=lambda row: row.problem)],
            )
            for names, table in tables.items()
        ],
        figures=figures,
        exhibits=exhibits,
        forest=forest_html(facts["claims"]) if facts["claims"] else "",
        overview=style(),
        facts=facts,
        budget=study.budget,
        origin={"command": facts["command"], **provenance(), **facts["versions"], **facts["seeds"]},
        files=_files(study),
        saved=script_json({f"{goal}, {price}": {"csv": t.csv(), "tex": t.latex()} for (goal, price), t in tables.items()}),
        charts=script_json(charts),
        light=LIGHT,
        dark=DARK,
        themes=script_json({"light": config(LIGHT), "dark": config(DARK)}),
        vega=script(),
    )


def _counts(study: Results, runs: int) -> str:
    """Say how much was played."""
    pairs = study.declaration.pairs
    methods, problems = {method for _, method in pairs}, {problem for problem, _ in pairs}
    counts = (runs, "run"), (len(methods), "method"), (len(problems), "problem")
    return ", ".join(f"{number:,} {word}{'' if number == 1 else 's'}" for number, word in counts)


def _files(study: Results) -> dict[str, str]:
    """Return the texts of the study by their names; tables that were given in Python as JSON."""
    source = study.declaration.source
    return {file.path: file.text for file in source.files} or {"tables": json.dumps(source.tables, indent=2, default=_named)}


def _named(value: Any) -> str:
    """Return an object in words: a record as it is written, anything longer by its class."""
    words = repr(value)
    return words if len(words) <= LONGEST else type(value).__name__
