"""A drawing of which package imports from which, from the code."""

import tomllib
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
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0][
        "layers"
    ]
    order = [name.strip() for layer in reversed(layers) for name in layer.split("|")]
    return vl_convert.vegalite_to_svg(
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "background": "white",
            "data": {"values": imports(order)},
            "mark": "rect",
            "encoding": {
                "y": {"field": "from", "type": "nominal", "sort": order, "title": "imports"},
                "x": {
                    "field": "to",
                    "type": "nominal",
                    "sort": order,
                    "title": "from",
                    "axis": {"orient": "top", "labelAngle": -60},
                },
                "color": {
                    "field": "modules",
                    "type": "quantitative",
                    "scale": {"type": "log", "scheme": "teals"},
                    "title": "imports",
                },
            },
        }
    )


def imports(order: list[str]) -> list[dict]:
    """Return how many imports there are from a package to another."""
    graph, counts = grimp.build_graph("turnout"), {}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            pair = package_of(module, order), package_of(imported, order)
            if None not in pair and pair[0] != pair[1]:
                counts[pair] = counts.get(pair, 0) + 1
    return [{"from": one, "to": other, "modules": count} for (one, other), count in counts.items()]


def package_of(module: str, order: list[str]) -> str | None:
    """Return the package in the contract to which a module belongs, or None."""
    return max((name for name in order if f"{module}.".startswith(f"turnout.{name}.")), key=len, default=None)
