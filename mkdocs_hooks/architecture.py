"""A drawing of which package imports from which, from the code."""

import tomllib
from collections import Counter
from pathlib import Path

import grimp
import vl_convert

ROOT = Path(__file__).parents[1]

PICTURE = "imports.svg"


def section() -> str:
    """Return the text about the drawing."""
    return f"""
## The imports

Each row is a package, and the darker a cell, the more of its modules import from the package of the column. Packages come in the
order of their layers, the lowest first, so that all cells are left of the diagonal: nothing imports from a layer above its own.

![Numbers of imports between the packages of turnout, all below the diagonal]({PICTURE})
"""


def picture() -> str:
    """Return the drawing as SVG."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
    order = [name.strip() for layer in reversed(contract["layers"]) for name in layer.split("|")]
    place, shade = {"type": "nominal", "sort": order}, {"type": "log", "scheme": "teals"}
    encoding = {
        "y": {**place, "field": "from", "title": "imports"},
        "x": {**place, "field": "to", "title": "from", "axis": {"orient": "top", "labelAngle": -60}},
        "color": {"field": "imports", "type": "quantitative", "scale": shade},
    }
    schema = "https://vega.github.io/schema/vega-lite/v6.json"
    data = {"values": imports(order)}
    return vl_convert.vegalite_to_svg(
        {"$schema": schema, "background": "white", "data": data, "mark": "rect", "encoding": encoding}
    )


def imports(order: list[str]) -> list[dict]:
    """Return how many imports there are from a package to another."""
    graph, counts = grimp.build_graph("turnout"), Counter()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            counts[package_of(module, order), package_of(imported, order)] += 1
    pairs = [(one, other) for one, other in counts if None not in (one, other) and one != other]
    return [{"from": one, "to": other, "imports": counts[one, other]} for one, other in pairs]


def package_of(module: str, order: list[str]) -> str | None:
    """Return the package in the contract to which a module belongs, or None."""
    return max((name for name in order if f"{module}.".startswith(f"turnout.{name}.")), key=len, default=None)
