"""Pages that show files are followed literally: their files are written and their commands executed."""

from pathlib import Path

import pytest

from tests.helpers.walkthrough import follow, has_files

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if has_files(page)]

MADE = {
    "clusters": ["spread/summary.json", "swept/report.html", "jobs/summary.json"],
    "faults": ["unreliable/summary.json"],
    "prices": ["sppm/summary.json"],
    "trackers": ["mlflow.db", "tensorboard"],
}
"""Files that there are in the end, of pages that are followed."""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(page, tmp_path):
    follow(page, tmp_path, seconds=300)
    assert not [name for name in MADE.get(page.stem, []) if not (tmp_path / name).exists()]
