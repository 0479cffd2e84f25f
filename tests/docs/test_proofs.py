"""The table of what proves what names tests that there are, and the tier in which each is first played."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| \[.+\]\((\S+)\) \| `tests/(\S+)`, `(\S+)` \| `(.+)` \|$", flags=re.MULTILINE)
COMMANDS = {"longer": "make test-all", "slow": "make nightly", "everything": "make everything"}
ROWS = ROW.findall((ROOT / "docs" / "proofs.md").read_text())


def first_tier(path: str, name: str) -> str:
    """Return the command that plays the first cases of a test, by its marks and those of its module."""
    body = ast.parse((ROOT / "tests" / path).read_text()).body
    (test,) = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)
    marks = [ast.unparse(decorator) for decorator in test.decorator_list]
    marks += [
        ast.unparse(node.value) for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    for mark in marks:
        for tier, command in COMMANDS.items():
            if mark == f"pytest.mark.{tier}":
                return command
        if mark.startswith("pytest.mark.tiers(") and "quick=[]" in mark:
            return next((command for tier, command in COMMANDS.items() if f"{tier}=" in mark), "make everything")
    return "make test"


@pytest.mark.parametrize(("page", "path", "name", "tier"), ROWS, ids=[f"{path}-{name}" for _, path, name, _ in ROWS])
def test_a_promise_is_proved_where_the_table_says(page, path, name, tier):
    assert (ROOT / "docs" / page).exists()
    assert first_tier(path, name) == tier


def test_every_row_is_read():
    lines = (ROOT / "docs" / "proofs.md").read_text().splitlines()
    assert len(ROWS) == sum(line.startswith("| [") for line in lines) > 40
