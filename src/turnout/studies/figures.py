"""Figures as they are declared, and those of a study that declares none."""

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from turnout.accounting.target import is_own
from turnout.core.errors import UserError
from turnout.core.records import config
from turnout.engines.metrics import NAMES
from turnout.experiment.toml_file import flatten
from turnout.report.format import is_linear, title_of
from turnout.studies.sources import Place

if TYPE_CHECKING:
    from turnout.studies.declaration import Declaration
    from turnout.studies.reader import DeclarationReader

COST = "cost"
PRICES = "price."
"""What precedes the field of a price on the horizontal axis."""

COUNTS = {"round": "round", "queries": "queries_slowest", "seconds": "seconds"}
"""The horizontal axes that are no price, and their columns."""


@config
class Panel:
    """A chart for each of its problems: a metric along the runs, or the cost to a goal against a swept key or a field of prices.

    Args:
        title: Its title; default: that of the problem.
        problems: Names of the problems; default: all that the goal is about.
        methods: Names of the methods; default: all.
        y: A metric, or "cost"; default: the metric of the goal.
        x: The name of a price, "round", "queries" or "seconds" (on the clock); of costs a swept key, or "price." and a field
            of the price.
        goal: Name of the goal by which settings are chosen, and to which costs are; default: the first one.
        price: Name of the price of these costs; default: `x` where that is a price, else the first one with its field.
        settings: Whether the cheapest setting of each method is drawn, or all of them.
        where: Values of swept keys: only these settings are drawn; methods without the key are drawn as they are.
        by: A swept key: each of its values has a line.
        share: Whether each run's metric is divided by its first value.
        scale: The vertical axis; default: "log", of accuracies and losses "linear".
    """

    title: str = ""
    problems: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    y: str = ""
    x: str = ""
    goal: str = ""
    price: str = ""
    settings: Literal["best", "all"] = "best"
    where: dict[str, Any] = field(default_factory=dict)
    by: str = ""
    share: bool = False
    scale: Literal["log", "linear"] | None = None


@config
class Figure:
    """A figure of panels.

    Args:
        name: Its name, which is part of the names of its files.
        title: Its title.
        caption: What is to be seen.
        panels: Its panels.
    """

    name: str
    title: str = ""
    caption: str = ""
    panels: tuple[Panel, ...] = ()


def read_figures(reader: "DeclarationReader", declaration: "Declaration") -> tuple[Figure, ...]:
    """Read the figures of a study; `UserError` for a mistake in any of them."""
    content = reader.tables.get("figures", [])
    if not isinstance(content, list):
        raise reader.error(("figures",), "figures are a list: write [[figures]] with double brackets")
    figures = tuple(_figure(reader, declaration, k) for k in range(len(content)))
    names = [figure.name for figure in figures]
    for k, name in enumerate(names):
        if name in names[:k]:
            raise reader.error(("figures", k, "name"), f"two figures are named {name!r}: give one of them another name")
    return figures


def default_figures(declaration: "Declaration", metrics: list[str], price: str) -> tuple[Figure, ...]:
    """Return a figure for the metric of each goal, or without goals for each of `metrics`: a panel for each problem.

    Args:
        declaration: The study.
        metrics: The metrics of the runs.
        price: The price on the horizontal axis.
    """
    goals = {goal.metric: name for name, goal in reversed(declaration.goals.items())}
    panels = {metric: Panel(y=metric, x=price, goal=goals.get(metric, "")) for metric in reversed(goals)} or {
        metric: Panel(y=metric, x=price) for metric in metrics
    }
    label = declaration.prices[price].label
    # A name is part of a file's name.
    return tuple(
        Figure(re.sub(r"[^\w.-]", "-", metric), f"{title_of(metric)} against {label}", panels=(completed(panel, declaration),))
        for metric, panel in panels.items()
    )


def completed(panel: Panel, declaration: "Declaration") -> Panel:
    """Return `panel` with its defaults."""
    goal = panel.goal or next(iter(declaration.goals), "")
    y = panel.y or (declaration.goals[goal].metric if goal else "")
    if not y or (y == COST and not goal):
        raise UserError("there is no goal: add [goals.NAME], or give a metric as y")
    if y == COST and not panel.x:
        raise UserError("x is missing: give the swept key against which costs are drawn")
    needed = panel.x.removeprefix(PRICES) if panel.x.startswith(PRICES) else "label"
    fit = [name for name, one in declaration.prices.items() if hasattr(one, needed)]
    price = panel.price or (panel.x if panel.x in fit else fit[0])
    if price not in fit:
        raise UserError(f"price {price!r} has no {needed}: name one of {', '.join(fit)}")
    about = [name for name in declaration.problems if not goal or declaration.goals[goal].about(name)]
    methods = panel.methods or list(declaration.methods)
    problems = [name for name in panel.problems or about if any(name in declaration.methods[each].problems for each in methods)]
    scale = panel.scale or ("linear" if is_linear(y) else "log")
    return replace(panel, goal=goal, y=y, x=panel.x or price, price=price, problems=problems, methods=methods, scale=scale)


def price_fields(declaration: "Declaration") -> list[str]:
    """Return the fields of prices that may be a horizontal axis: those that are numbers."""
    records = [vars(price) for price in declaration.prices.values() if hasattr(price, "__dict__")]
    return list(
        dict.fromkeys(f"{PRICES}{key}" for one in records for key, value in one.items() if isinstance(value, int | float))
    )


def _figure(reader: "DeclarationReader", declaration: "Declaration", k: int) -> Figure:
    """Read the k-th figure."""
    path, content = ("figures", k), reader.tables["figures"][k]
    panels = content.get("panels") if isinstance(content, dict) else None
    if not isinstance(panels, list) or not panels:
        raise reader.error(path, "a figure has panels: add [[figures.panels]] below it")
    own = {key: value for key, value in content.items() if key != "panels"}
    if "name" not in own:
        raise reader.error(path, 'name is missing: write name = "1", for instance')
    parts = tuple(_panel(reader, declaration, (*path, "panels", j)) for j in range(len(panels)))
    figure = reader.plain(Figure, path, own, panels=parts)
    if not re.fullmatch(r"\w[\w.-]*", figure.name):
        raise reader.error((*path, "name"), f"a name is part of a file's name, so it cannot be {figure.name!r}")
    return figure


def _panel(reader: "DeclarationReader", declaration: "Declaration", path: Place) -> Panel:
    """Read the panel at `path`."""
    panel = reader.plain(Panel, path, reader.at(path))
    panel = replace(panel, where=flatten(panel.where))
    swept = reader.swept_keys()
    for key, what, known in (("problems", "problem", declaration.problems), ("methods", "method", declaration.methods)):
        for name in getattr(panel, key):
            reader.named(name, known, (*path, key), what)
    costs = panel.y == COST
    axes = [*swept, *price_fields(declaration)] if costs else [*declaration.prices, *COUNTS]
    metrics = (*NAMES, COST, *([panel.y] if is_own(panel.y) else []))
    given = (
        ("goal", "goal", declaration.goals), ("price", "price", declaration.prices), ("y", "metric", metrics),
        ("x", "horizontal axis", axes), ("by", "swept key", swept),
    )  # fmt: skip
    for key, what, known in given:
        if getattr(panel, key):
            reader.named(getattr(panel, key), known, (*path, key), what)
    for key in panel.where:
        reader.named(key, swept, (*path, "where"), "swept key")
    for key, value in (("share", panel.share), ("settings", panel.settings == "all")):
        if costs and value:
            raise reader.error((*path, key), f"{key} is for metrics along runs: leave it out where y is the cost")
    try:
        panel = completed(panel, declaration)
    except UserError as error:
        raise reader.error(path, str(error)) from None
    if not panel.problems:
        raise reader.error(path, "none of its methods plays on its problems: name others")
    return panel
