"""What the pages of all reproductions have in common: figures of panels, drawn on the page and as pictures."""

import json
from dataclasses import dataclass
from pathlib import Path

import altair as alt
import vl_convert

from turnout.io.atomic import make_folder, write
from turnout.report.page import SCALE, TEMPLATES
from turnout.report.theme import DARK, LIGHT, config
from turnout.report.vega import script

PART = "The tables come with the whole reproduction, without --figure."


@dataclass(frozen=True)
class Panel:
    """One chart of a figure, and what it is of."""

    title: str
    chart: alt.TopLevelMixin


@dataclass(frozen=True)
class Drawn:
    """A figure with its panels."""

    name: str
    title: str
    caption: str
    panels: list[Panel]


def write_page(folder: Path, template: str, figures: list[Drawn], facts: dict, **content) -> Path:
    """Write the pictures and the page, which needs nothing but itself, to `folder`, and return the path of the page."""
    pictures(make_folder(folder / "figures"), figures)
    page = TEMPLATES.get_template(template).render(
        figures=figures,
        command=facts["command"],
        facts=json.dumps(facts, indent=2),
        panels=_json(
            {f"{figure.name}/{k}": panel.chart.to_dict() for figure in figures for k, panel in enumerate(figure.panels)}
        ),
        themes=_json({"light": config(LIGHT), "dark": config(DARK)}),
        vega=script(),
        **content,
    )
    write(folder / "report.html", page)
    return folder / "report.html"


def pictures(folder: Path, figures: list[Drawn]) -> None:
    """Write each figure as one SVG and one PNG."""
    for figure in figures:
        charts = alt.concat(*(panel.chart for panel in figure.panels), columns=2)
        charts = charts.resolve_scale(color="independent", strokeDash="independent")
        spec = charts.configure(**config(LIGHT)).to_dict()
        write(folder / f"figure-{figure.name}.svg", vl_convert.vegalite_to_svg(spec))
        write(folder / f"figure-{figure.name}.png", vl_convert.vegalite_to_png(spec, scale=SCALE))


def _json(content: dict) -> str:
    return json.dumps(content).replace("<", "\\u003c")
