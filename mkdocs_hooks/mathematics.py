"""Mathematics: formulas between dollars become MathML while the site is built, so that browsers need no script for them."""

import html
import re
import tomllib
from pathlib import Path

import latex2mathml.converter

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)
"""What the extension `arithmatex` makes of $...$ and of $$...$$."""

UPDATES = Path(__file__).with_name("updates.toml")

OPERATORS = ("argmin", "mean", "prox")
"""What formulas in `UPDATES` write as if LaTeX had it."""


def displayed(content: str) -> str:
    """Return a page whose formulas are MathML."""
    return FORMULA.sub(lambda match: mathml(html.unescape(match[2]), block=match[1] == "div"), content)


def mathml(formula: str, *, block: bool) -> str:
    """Return a formula in LaTeX as MathML; `ValueError` if a part of it is not understood.

    Args:
        formula: The formula.
        block: Whether it stands on lines of its own.
    """
    made = latex2mathml.converter.convert(" ".join(formula.split()), display="block" if block else "inline")
    strange = re.search(r">([^<]*(?:\\|&(?!#?\w+;))[^<]*)<", made)
    if strange:
        raise ValueError(f"{formula}: {strange[1]} is not understood")
    # Brackets of inner products and norms as high as those in the text, and names of functions without the room of operators.
    made = re.sub(r"<m[io]>(&#x0(?:27E[89]|2016);)</m[io]>", r'<mo stretchy="false">\1</mo>', made)
    made = re.sub(r"<mo>(\w\w+)</mo>", r"<mi>\1</mi>", made)
    made = re.sub(r"<mo[^>]*>(&#x000(?:2F|7C);)</mo>", r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', made)
    made = re.sub(r"(<m[io]>(?:log|ln)</m[io]>)", r'\1<mspace width="0.17em" />', made)
    # A formula that is wider than the screen is scrolled by itself, also from the keyboard.
    return f'<div class="formula" tabindex="0" role="group" aria-label="formula">{made}</div>' if block else made


def updates(name: str) -> str:
    """Return the update of an algorithm as formulas in Markdown."""
    lines = tomllib.loads(UPDATES.read_text(encoding="utf-8"))[name]
    formulas = [re.sub(rf"\\({'|'.join(OPERATORS)})(?![a-z])", r"\\operatorname{\1}", line) for line in lines]
    return "\n\n".join(f"$$\n{formula}\n$$" for formula in formulas)
