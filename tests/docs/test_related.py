"""The comparison with other frameworks: every cell has a source that does not change, and every absence a date."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "related.md"
ROWS = re.findall(r"^\| (?!---)(\w[^|]*) \| (.*) \|$", PAGE.read_text(), flags=re.MULTILINE)


def test_both_tables_are_there():
    assert len(ROWS) >= 14 and "Phones" in dict(ROWS)


@pytest.mark.parametrize(("feature", "cells"), ROWS, ids=[feature for feature, _ in ROWS])
def test_every_cell_about_another_framework_has_a_source_at_a_commit(feature, cells):
    _, *others = cells.split(" | ")
    assert len(others) == 5
    for cell in others:
        targets = re.findall(r"\]\(([^)]+)\)", cell)
        assert targets, cell
        assert all(
            re.search(r"^https://github\.com/[\w-]+/[\w-]+/(?:blob|tree|commits)/[0-9a-f]{40}(?:/|$)", one) for one in targets
        ), cell
        assert "not found" not in cell or re.search(r", \d{4}-\d{2}-\d{2}$", cell), cell
