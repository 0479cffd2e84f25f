"""Formatting of numbers, units, metrics and prices."""

import math

from turnout.accounting.prices import Bytes, Clock, Price, Seconds
from turnout.accounting.target import Target, is_accuracy

METRICS = {
    "gap": "gap f(x) − f(x*)",
    "distance": "squared distance ‖x − x*‖²",
    "dual_gap": "dual gap G(y) − G(y*)",
    "gradient": "squared gradient norm ‖∇f(x)‖²",
    "accuracy": "error rate, 1 − accuracy",
    "value": "loss f(x)",
    "perplexity": "perplexity exp f(x)",
    "test_value": "mean loss of the test rows",
    "test_accuracy": "test error rate, 1 − accuracy",
    "test_perplexity": "perplexity of the test rows",
    "held_out_perplexity": "perplexity of held-out clients' rows",
    "held_out_value": "mean loss of held-out clients' rows",
    "held_out_accuracy": "error rate of held-out clients, 1 − accuracy",
    **{
        f"{prefix}accuracy_{percent}": f"error rate of {whose}, 1 − {percent} % quantile of accuracy"
        for prefix, whose in (("", "clients"), ("held_out_", "held-out clients"))
        for percent in (10, 50, 90)
    },
    **{
        f"{prefix}accuracy_{kind}": f"{words} of {whose}"
        for prefix, whose in (("", "clients"), ("held_out_", "held-out clients"))
        for kind, words in (("worst_decile", "error rate of the worst tenth"), ("spread", "standard deviation of the accuracies"))
    },
    "variance": "variance of the sampled estimate",
    "regret": "dynamic regret of the sampler",
    "static_regret": "static regret of the sampler",
}
"""The name of each metric in figures. Without a target a report shows the first of them that all results have."""

LINEAR = tuple(name for name in METRICS if "accuracy" in name or name.endswith("value"))
"""Turnout's metrics on a linear axis: error rates are shares, and losses may be negative."""

# Counts stay as they are up to 9,999 and then become 10k, 2.5M, 1.2G; small values of a log axis become 1e-4.
COST_LABELS = "abs(datum.value) < 1e4 ? format(datum.value, '~g') : format(datum.value, '~s')"
LOG_LABELS = (
    "!datum.label ? '' : datum.value < 1e-3 || datum.value >= 1e6 ? format(datum.value, '~e') : format(datum.value, '~g')"
)


def title_of(metric: str) -> str:
    """Return the name of a metric in figures; one's own have the names that they are given."""
    return METRICS.get(metric, short(metric))


def is_linear(metric: str) -> bool:
    """Return whether a metric is drawn on a linear axis: of one's own nobody knows whether it is above 0."""
    return metric in LINEAR or metric not in METRICS


def short(metric: str) -> str:
    """Return the name of a metric in a sentence, of an accuracy that of the error rate."""
    words = {"accuracy": "error rate", "test_accuracy": "test error rate", "test_value": "test loss"}
    further = {"held_out_accuracy": "held-out error rate", "held_out_value": "held-out loss"}
    return (words | further).get(metric, f"1 - {metric}" if is_accuracy(metric) else metric)


def goal(target: Target) -> str:
    """Format a target, such as "distance < 0.005"."""
    return f"{short(target.metric)} < {target.below:g}"


def number(value: float) -> str:
    """Format a number: four significant digits below 1,000, no decimals above."""
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 1e15:
        return f"{value:.3e}"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def count(value: float | None) -> str:
    """Format a median count: infinity is "not reached", NaN or None (no run) a dash."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:,.0f}" if math.isfinite(value) else "not reached"


def human_bytes(count: float) -> str:
    """Format a number of bytes in decimal units: 1 kB is 1,000 bytes."""
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.3g} {unit}" if abs(count) < 999.5 * size else f"{count / size:,.0f} {unit}"
    return f"{count:,.0f} B"


def amount(price: Price, cost: float) -> str:
    """Format a cost in the unit of its price.

    Args:
        price: The price.
        cost: A cost.
    """
    if isinstance(price, Bytes):
        return human_bytes(cost)
    return f"{number(cost)} s" if isinstance(price, Seconds | Clock) else number(cost)


def formula(price: Price) -> str:
    """Return the formula of a price, from its docstring."""
    return " ".join((type(price).__doc__ or "").split("\n\n")[0].split())


def axis_title(price: Price) -> list[str]:
    """Return the lines of the title of a cost axis: the price, and the unit where the price is not called after it."""
    return [f"cumulative cost: {price.label}", *([f"unit: {price.unit}"] if price.unit != price.label else [])]


def listed(names: list[str]) -> str:
    """Join names with commas and a final "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
