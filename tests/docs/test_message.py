"""The page on the life of a message: functions that it names are in the files that it links, and the drawing has all steps."""

import ast
import re
from pathlib import Path

import pytest

from tests.helpers.site_hooks import hook

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "message.md"
NAMED = re.findall(r"\[`([\w.]+)`\]\(\.\./(src/[^)#]+)\)", PAGE.read_text())


def definitions(tree: ast.AST, inside: str = "") -> set[str]:
    """The dotted names of all functions and classes of a module."""
    names: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names |= {f"{inside}{node.name}"} | definitions(node, f"{inside}{node.name}.")
    return names


@pytest.mark.parametrize(("name", "path"), sorted({*NAMED}))
def test_what_a_link_names_is_in_its_file(name, path):
    assert name in definitions(ast.parse((ROOT / path).read_text()))


def test_the_drawing_shows_every_step_in_its_order():
    shown = hook("message_life").inserted(f"<p>a</p>{hook('message_life').MARK}<p>b</p>")
    rows = re.findall(r"^\| (\w+) \| (?:server|client) \|", PAGE.read_text(), flags=re.MULTILINE)
    assert len(rows) == 12
    assert re.findall(r'class="name"[^>]*>\d+\. (\w+)<', shown) == rows
    assert re.search(r'<svg role="img" aria-label="[^"]+"', shown) and "<p>b</p>" in shown


def test_the_text_of_a_box_fits_into_it():
    life = hook("message_life")
    for step in life.steps(PAGE.read_text()):
        # Letters of 12 pixels are at most 7 wide on average.
        assert len(", ".join(step.files)) * 7 <= life.BOX - 12, step
