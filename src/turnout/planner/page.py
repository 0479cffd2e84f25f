"""The page of a plan, and its files."""

import json
from importlib.metadata import version
from pathlib import Path

import polars as pl

from turnout.io.atomic import make_folder, write
from turnout.io.json_text import finite
from turnout.planner.plan import BEST, Plan
from turnout.report.format import amount, number
from turnout.report.html import TEMPLATES, script_json, write_page
from turnout.report.lines import SCHEMA
from turnout.report.pictures import write_charts
from turnout.report.theme import DARK, LIGHT, config
from turnout.report.vega import script
from turnout.studies.exhibits import Exhibit, OwnChart, OwnTable

WIDTH, HEIGHT = 560, 300

LOG = {"type": "log", "nice": False}
"""The scale of every axis."""


def write_plan(plan: Plan, folder: Path, command: str) -> None:
    """Write the page, the winner's configuration, the facts as JSON, and tables and figures in `folder`."""
    shown = exhibits(plan)
    facts = {"command": command, "turnout": version("turnout"), **plan.facts()}
    write(make_folder(folder) / "plan.json", json.dumps(finite(facts), indent=2, default=str).encode())
    write(folder / BEST, plan.best.to_toml().encode())
    tables = make_folder(folder / "tables")
    for exhibit in shown:
        if isinstance(exhibit, OwnTable):
            for ending, text in (("md", exhibit.markdown()), ("csv", exhibit.csv()), ("tex", exhibit.latex())):
                write(tables / f"{exhibit.name}.{ending}", text.encode())
    charts = {exhibit.name: {**exhibit.chart, "config": config(LIGHT)} for exhibit in shown if isinstance(exhibit, OwnChart)}
    write_charts(folder, charts)
    write_page(folder / "report.html", lambda: page(plan, shown, command), "the same command")


def page(plan: Plan, shown: list[Exhibit], command: str) -> str:
    """Return the page as HTML that needs nothing but itself."""
    spent = plan.spent
    charts = {one.name: {"spec": one.chart} for one in shown if isinstance(one, OwnChart)}
    played = f"{spent.runs:,} runs of {spent.rounds:,} rounds in {spent.seconds:.0f} s"
    played += f", at a simulated cost of {amount(plan.price, spent.cost)}"
    return TEMPLATES.get_template("study.html").render(
        title=f"Plan of {plan.name}",
        goals={},
        prices={},
        tables=[],
        figures=[],
        counts=f"{plan.target} at the price of {plan.price.label}: {played}",
        exhibits=shown,
        facts={"findings": sentences(plan), "command": command, "broken": [], "claims": []},
        origin={
            "turnout": version("turnout"),
            "client queries": number(spent.queries),
        },
        files={BEST: plan.best.to_toml()},
        saved=script_json({}),
        charts=script_json(charts),
        light=LIGHT,
        dark=DARK,
        themes=script_json({"light": config(LIGHT), "dark": config(DARK)}),
        vega=script(),
    )


def sentences(plan: Plan) -> list[str]:
    """Say what to run, how sure that is, and what the planning took."""
    winner, *others = plan.ranking.iter_rows(named=True)
    found = [f"Run {BEST}: {winner['title']}, {winner['setting'] or 'without numbers to choose'}."]
    found.append(
        f"It reaches {plan.target} at a median cost of {amount(plan.price, winner['cost'])} over {winner['seeds']} fresh seeds "
        f"(95 % interval {amount(plan.price, winner['interval_low'])} to {amount(plan.price, winner['interval_high'])})."
    )
    tied = [row["title"] for row in others if row["ratio_low"] <= 1 and row["family"] != winner["family"]]
    if tied:
        found.append(f"No certain winner: the interval of the ratio includes a tie with {', '.join(tied)}.")
    return [*([plan.note] if plan.note else []), *found]


def exhibits(plan: Plan) -> list[Exhibit]:
    """Return the tables and charts of a plan."""
    numbers = ["cost", "low", "high", "interval_low", "interval_high", "ratio", "ratio_low", "ratio_high"]
    ranking = plan.ranking.select(
        pl.col("title").alias("family"),
        "setting",
        *numbers,
        pl.format("{}/{}", "reached", "seeds").alias("reached"),
    ).rename({name: name.replace("_", " ") for name in numbers})
    shown: list[Exhibit] = [
        OwnTable(
            "ranking",
            "Ranking",
            "Medians over fresh seeds with quartiles (low, high) and bootstrap intervals; ratio to the winner.",
            ranking,
        )
    ]
    if plan.losers:
        others = pl.DataFrame([{"family": one.family, "best setting": one.setting, "why": one.why} for one in plan.losers])
        shown.append(OwnTable("others", "Why others lost", "Families that are not in the final.", others))
    if plan.elsewhere.height:
        elsewhere = plan.elsewhere.select("price", pl.col("title").alias("family"), "setting", "cost")
        shown.append(OwnTable("prices", "At the other prices", "Medians over the five seeds of the race.", elsewhere))
    if plan.envelope.height:
        shown += [_envelope(plan), _points(plan)]
    return shown


def _envelope(plan: Plan) -> OwnChart:
    """Return the chart of the least cost against the price of an event."""
    event = plan.against.replace("_", " ")
    chart = {
        "$schema": SCHEMA,
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": plan.envelope.to_dicts()},
        "mark": {"type": "line", "point": True, "interpolate": "linear"},
        "encoding": {
            "x": {
                "field": "rate",
                "type": "quantitative",
                "scale": LOG,
                "title": f"price of each event: {event}",
            },
            "y": {
                "field": "cost",
                "type": "quantitative",
                "scale": LOG,
                "title": "cost of the target",
            },
            "color": {"field": "title", "type": "nominal", "title": None, "legend": {"orient": "bottom", "columns": 1}},
            "tooltip": [{"field": name} for name in ("rate", "cost", "title", "setting")],
        },
    }
    caption = (
        f"The least cost of the target where each of the {event} costs something in addition, an interquartile mean over seeds, "
        "and the family that has it."
    )
    return OwnChart("envelope", "What would be best at other prices", caption, chart)


def _points(plan: Plan) -> OwnChart:
    """Return the chart of all candidates that arrived: their cost, and the number of an event."""
    event = plan.against.replace("_", " ")
    axes = {
        "x": {
            "field": "cost",
            "type": "quantitative",
            "scale": LOG,
            "title": f"cost, {plan.price.label}",
        },
        "y": {"field": "count", "type": "quantitative", "scale": LOG, "title": event},
    }
    tooltip = {"tooltip": [{"field": name} for name in ("title", "setting", "cost", "count")]}
    on_front = {"transform": [{"filter": "datum.front"}]}
    chart = {
        "$schema": SCHEMA,
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": plan.points.to_dicts()},
        "layer": [
            {"mark": {"type": "point", "opacity": 0.35}, "encoding": {**axes, **tooltip}},
            {**on_front, "mark": {"type": "line", "interpolate": "step-after"}, "encoding": axes},
            {**on_front, "mark": {"type": "point", "filled": True, "size": 70}, "encoding": {**axes, **tooltip}},
        ],
    }
    caption = f"Candidates that reached the target on the first seed. On the line, none has both a lower cost and fewer {event}."
    return OwnChart("front", f"Cost and {event}", caption, chart)
