"""Pages that show files or cells are followed literally, as a stranger would: files are written, commands and cells executed."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from tests.helpers.walkthrough import blocks, follow, has_files
from turnout.core.errors import UserError
from turnout.data import load

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if has_files(page)]

MADE = {
    "choosing": ["plan/best.toml", "plan/report.html", "run/summary.json"],
    "clusters": ["spread/summary.json", "swept/report.html", "jobs/summary.json"],
    "faults": ["unreliable/summary.json"],
    "own-parts": ["study/figures/figure-distance.pdf", "study/tables/near-exchanges.tex", "study/report.html"],
    "prices": ["sppm/summary.json"],
    "torch-training": ["FedAvg.safetensors", "SCAFFOLD.safetensors", "FedAdam.safetensors"],
    "trackers": ["mlflow.db", "tensorboard"],
}
"""Files that there are in the end, of every page that is followed."""

DATA = {"own-parts": ("a6a", "mushrooms")}
"""Data sets that a page needs beside those that are bundled."""


def need(page: str) -> None:
    """Skip the test of a page whose data are not here."""
    for name in DATA.get(page, ()):
        try:
            load(name)
        except UserError:
            pytest.skip(f"the data set {name} is not here: set TURNOUT_DATA to a folder that has it")


@pytest.mark.tiers(quick=[], slow=["faults", "prices"])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(page, tmp_path):
    need(page.stem)
    follow(page, tmp_path, seconds=900)
    assert not [name for name in MADE[page.stem] if not (tmp_path / name).exists()]


@pytest.mark.slow
def test_the_page_for_agents_can_be_followed(tmp_path):
    """Each command prints one JSON value, with the keys that the page names."""
    printed = follow(files("turnout") / "SKILL.md", tmp_path, seconds=300)  # type: ignore
    described, run, sweep, schema, *_ = [json.loads(line) for line in printed.splitlines() if line]
    assert described[0]["name"] == "fedavg" and "fedavg" in str(schema["$defs"]["algorithm"])
    assert {"reached", "costs"} <= {*run["target"]} and run["ledger"]["totals"] and run["metrics"]
    assert sweep["costs"][0]["rows"] and sweep["claims"] == []


@pytest.mark.slow
def test_a_page_of_cells_is_a_notebook_that_needs_no_network(tmp_path):
    """Every cell runs, and the charts of a run and of a chart carry their script."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    cells = [block.text for block in blocks(DOCS / "notebook.md") if block.language == "python"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [
        output["data"]["text/html"] for cell in notebook.cells for output in cell.outputs if "text/html" in output.get("data", {})
    ]
    assert len(shown) >= 5
    assert any("vega" in html for html in shown)
    assert not [html for html in shown if "https://cdn." in html]
    assert (tmp_path / "shops").is_dir()
