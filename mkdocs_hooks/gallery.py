"""The gallery: a page for each published study, with what it found, its figures and its tables."""

import json
from html import escape
from pathlib import Path

from turnout.studies import overview

RESULTS = Path(__file__).parents[1] / "results"

LONGEST = 30_000
"""Characters of a table that is shown; longer ones are linked."""

VERDICTS = {"hold": "holds", "do not hold": "does not hold", "are not decided": "is not decided"}
"""What is said of claims, and how a claim says it."""


def folders() -> list[Path]:
    """Return the folders of the studies."""
    return sorted(path.parent for path in RESULTS.glob("*/summary.json"))


def page_of(folder: Path) -> str:
    """Return the path of the page of a study."""
    return f"gallery/{folder.name}.md"


def pages() -> dict[str, str]:
    """Return all pages by their paths."""
    return {page_of(folder): page(folder) for folder in folders()}


def pictures() -> dict[str, Path]:
    """Return the files of all figures by their paths in the site."""
    return {f"gallery/{folder.name}/{file.name}": file for folder in folders() for file in figures(folder)}


def figures(folder: Path) -> list[Path]:
    """Return the figures of a study."""
    return sorted((folder / "figures").glob("*.svg"))


def navigation() -> list:
    """Return the entries of all pages."""
    return [{folder.name: page_of(folder)} for folder in folders()]


def page(folder: Path) -> str:
    """Return the page of a study: what it found as pictures, then the curves, then the tables."""
    facts = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    matrices = json.loads((folder / "tables" / "matrices.json").read_text(encoding="utf-8"))
    claims = facts["claims"]
    counts = [f"{sum(claim['answer'] == answer for claim in claims)} {name}" for name, answer in VERDICTS.items()]
    parts = [
        f"# {facts['title']}",
        _html(overview.style()),
        *(part for k, matrix in enumerate(matrices) for part in _matrix(matrix, first=k == 0)),
        *(["## What it found", *_list(facts["findings"])] if facts["findings"] else []),
        *(["## Claims", f"Of {len(claims)} claims {', '.join(counts)}.", _html(overview.forest_html(claims))] if claims else []),
        "## Figures",
        *(f"![{label(file)} of {facts['title']}]({folder.name}/{file.name})" for file in figures(folder)),
        f"`{facts['command']}` made this page's numbers on {facts['date']}, in {facts['runs']:,} runs.",
        "## Tables",
        *(part for file in sorted((folder / "tables").glob("*.md")) for part in _table(file)),
    ]
    return "\n\n".join(parts) + "\n"


def _matrix(matrix: dict, first: bool) -> list[str]:
    """Return the first matrix as it is, and a further one behind its title."""
    drawn, title = overview.matrix_html(matrix), escape(matrix["title"])
    if first:
        return [matrix["title"], _html(drawn)]
    return [_html(f"<details><summary>{title}</summary>\n{drawn}</details>")]


def _html(text: str) -> str:
    """Return HTML on one line without blank ones, in which Markdown finds nothing to change."""
    return f"<div>{' '.join(line.strip() for line in text.splitlines() if line.strip())}</div>"


def label(file: Path) -> str:
    """Return what a figure is called, by the name of its file."""
    return file.stem.replace("-", " ").capitalize()


def _list(lines: list[str]) -> list[str]:
    return ["\n".join(f"* {line}" for line in lines)]


def _table(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8").strip()
    if len(text) > LONGEST:
        return [f"[{file.stem}](../../results/{file.parts[-3]}/tables/{file.name}) is too long for this page."]
    # The title of a table is its first line.
    title, _, rest = text.partition("\n")
    return [f"### {title.strip('*# ')}", rest.strip()]
