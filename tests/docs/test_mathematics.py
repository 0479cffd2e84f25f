"""Formulas of the site: all are understood, and every algorithm has its update as formulas."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import turnout
from tests.helpers.site_hooks import hook

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))

pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")


@pytest.fixture(scope="module")
def mathematics():
    return hook("mathematics")


def formulas(text: str) -> list[str]:
    """The formulas between dollars of a text, outside of code."""
    prose = re.sub(r"^```.*?^```|`[^`\n]+`", "", text, flags=re.DOTALL | re.MULTILINE)
    return [block or inline for block, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", prose, flags=re.DOTALL)]


def tree(mathematics, formula: str) -> ElementTree.Element:
    return ElementTree.fromstring(mathematics.mathml(formula, block=False))


def names(element: ElementTree.Element) -> set[str]:
    return {part.tag.rpartition("}")[2] for part in element.iter()}


def test_every_algorithm_has_its_update_in_formulas_that_are_understood(mathematics):
    modules = {name: getattr(getattr(turnout, name), "__module__", "") for name in turnout.__all__}
    algorithms = [name for name, module in modules.items() if module.startswith("turnout.algorithms.")]
    assert algorithms
    for name in algorithms:
        shown = formulas(mathematics.updates(name))
        assert shown, name
        for formula in shown:
            tree(mathematics, formula)


@pytest.mark.parametrize("page", [page for page in PAGES if formulas(page.read_text())], ids=lambda page: page.name)
def test_the_formulas_of_a_page_are_understood(mathematics, page):
    for formula in formulas(page.read_text()):
        tree(mathematics, formula)


def test_a_fraction_and_a_sum_are_set_as_such(mathematics):
    assert {"mfrac", "msub", "mo"} <= names(tree(mathematics, r"\sum_{i \in S} \frac{\lambda_i}{p_i} f_i"))


@pytest.mark.parametrize("formula", [r"\nosuchcommand x", r"a & b", r"x \mean y"])
def test_what_is_not_understood_is_refused(mathematics, formula):
    with pytest.raises(ValueError, match="is not understood"):
        mathematics.mathml(formula, block=False)


def test_formulas_of_a_page_are_replaced_and_the_rest_is_kept(mathematics):
    page = r'<p>Let <span class="arithmatex">\(a &lt; b\)</span>.</p><div class="arithmatex">\[c\]</div>'
    shown = mathematics.displayed(page)
    assert shown.startswith("<p>Let <math") and shown.count("<math") == 2 and "arithmatex" not in shown
    assert "&#x0003C;" in shown or "&lt;" in shown


def test_a_formula_on_its_own_lines_can_be_scrolled_from_the_keyboard(mathematics):
    assert 'tabindex="0"' in mathematics.mathml("x", block=True) and 'display="block"' in mathematics.mathml("x", block=True)
