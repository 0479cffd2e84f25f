"""The report: a self-contained page, and the charts of which pictures can be made."""

import json
import re
from pathlib import Path

from turnout.accounting.ledger import COUNTERS, EVENTS
from turnout.accounting.prices import Price
from turnout.report.charts import curves, figure
from turnout.report.costs import costs_of, main_metric, prices_of
from turnout.report.format import formula, goal, human_bytes, number
from turnout.report.headline import headline
from turnout.report.html import TEMPLATES, script_json, write_page
from turnout.report.loaded_run import Result
from turnout.report.pictures import write_charts
from turnout.report.plan import PLAN, Grid, NamedPlan, calls, links, message, side_by_side
from turnout.report.theme import DARK, LIGHT, config
from turnout.report.vega import script


def write_report(folder: Path | str, result: Result, title: str) -> Path:
    """Write the self-contained page `report.html` to `folder`, unless the extra "report" is not installed; return its path.

    Args:
        folder: Folder of the report.
        result: A finished run.
        title: Title of the page.
    """
    path = Path(folder) / "report.html"
    write_page(path, lambda: _page(result, title), f"turnout resume {folder}")
    return path


def _page(result: Result, title: str) -> str:
    """Return the page as HTML that needs nothing but itself."""
    costs, metric, prices = costs_of(result), main_metric(result), prices_of(result)
    return TEMPLATES.get_template("report.html").render(
        title=title,
        headline=headline(costs),
        costs=costs,
        goal=goal(costs.target) if costs.target else None,
        formulas=[(price.label, formula(price), price.unit) for price in prices],
        result=_shown(result),
        expected=_expected(result),
        members=_members(result.summary),
        confusion=_confusion(result.summary),
        chart=script_json(curves(result, metric, prices)),
        themes=script_json({"light": config(LIGHT), "dark": config(DARK)}),
        vega=script(),
    )


def write_figures(folder: Path | str, result: Result) -> None:
    """Write the chart of each price to `folder`, for `turnout figures`.

    Args:
        folder: Folder of the report.
        result: A finished run.
    """
    metric = main_metric(result)
    write_charts(Path(folder), {f"{metric}-{_slug(price)}": figure(result, metric, price) for price in prices_of(result)})


def _slug(price: Price) -> str:
    """Return the price's label as part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", price.label.lower()).strip("-")


def _shown(result: Result) -> dict:
    """Return the content of the page on one result."""
    summary = result.summary
    sites = [
        {
            "site": _name(site),
            "down": message(site["vectors_down"], site["bytes_down"]),
            "up": message(site["vectors_up"], site["bytes_up"]),
            "counts": _counts({name: site.get(name) for name in COUNTERS}),
        }
        for site in summary.get("ledger", {}).get("sites", [])
        if not site.get("level") or site["exchanges"] or site["contacts"]
    ]
    facts = {key: value for key, value in summary.items() if key not in ("ledger", "target", "prices", "plan", "confusion")}
    return {
        "label": result.label,
        "sites": sites,
        "command": summary.get("command"),
        "facts": json.dumps(facts, indent=2),
        "config": result.config,
        "totals": _counts(summary.get("ledger", {}).get("totals", {})),
    }


def _expected(result: Result) -> list[Grid]:
    """Return the cost estimate of the run, if it has one."""
    if "plan" not in result.summary:
        return []
    estimate = NamedPlan(result.label, PLAN.validate_python(result.summary["plan"]), tuple(result.prices))
    return [side_by_side([estimate]), calls(estimate), *links(estimate)]


def _members(summary: dict) -> Grid | None:
    """Return a row for each member of a federation at the end of the run; None for another run."""
    members = summary.get("federation", {}).get("members")
    if not members:
        return None
    epsilon = summary.get("privacy", {}).get("epsilon")
    rows = [
        [
            member["name"],
            member["standing"],
            number(member["rows"]) if member["rows"] else "–",
            number(member["refused"]),
            *([] if epsilon is None else [number(epsilon)]),
            "; ".join(f"{reason} ({number(count)})" for reason, count in member["unusable"].items()) or "none",
        ]
        for member in members
    ]
    headings = ["member", "at the end", "rows", "replies refused in a row", *([] if epsilon is None else ["epsilon"])]
    return Grid("Members", [*headings, "unusable replies"], rows)


def _confusion(summary: dict) -> Grid | None:
    """Return the table of classes that rows have and that are predicted; None where there is none."""
    table = summary.get("confusion")
    if table is None:
        return None
    rows = [[name, *map(number, counts)] for name, counts in table["counts"].items()]
    return Grid(f"Classes of the {table['of']}", ["class", *table["predicted"]], rows)


def _name(site: dict) -> str:
    """Return what a call site is called: its method, or the level of hubs whose link to the next one it is."""
    if not site.get("level"):
        return f"{site['method']} ({site['selection']})"
    served = ", for all exchanges of a hub with its cohort" if ".served" in site["path"] else ""
    return f"link above hubs of level {site['level']}{served}"


def _counts(events: dict) -> str:
    """Format the events with a count above 0."""
    happened = [(name, events[name]) for name in EVENTS if events.get(name)]
    return ", ".join(
        f"{name.replace('_', ' ')} {human_bytes(count) if 'bytes' in name else number(count)}" for name, count in happened
    )
