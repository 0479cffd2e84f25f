"""Figures of a comparison of samplers."""

import math

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from turnout.report.theme import LIGHT
from turnout.reproduce import page
from turnout.reproduce.charts import client_sizes, colored, compact, dashed, finished, log_axis, quartiles
from turnout.reproduce.sampling import case
from turnout.reproduce.sampling.paper import Contender, Figure, Panel, Paper
from turnout.reproduce.sampling.tables import Numbers, fitted
from turnout.samplers.probabilities.waterfilling import capped

METRICS = {"regret": "cumulative dynamic regret", "variance": "variance of the estimator", "test_value": "test loss"}
KINDS = ("uniform, with replacement", "optimal, with replacement", "uniform, independent", "optimal, independent")


def draw(figure: Figure, paper: Paper, rounds: pl.DataFrame, numbers: Numbers, sizes: np.ndarray | None) -> page.Drawn:
    """Draw `figure`; `sizes` are the clients' rows."""
    return page.Drawn(
        figure.name, figure.title, figure.caption, [panel(each, paper, rounds, numbers, sizes) for each in figure.panels]
    )


def panel(spec: Panel, paper: Paper, rounds: pl.DataFrame, numbers: Numbers, sizes: np.ndarray | None) -> page.Panel:
    """Draw one panel."""
    contenders = [paper.contenders[name] for name in spec.samplers]
    if spec.kind == "rounds":
        return against_rounds(spec, contenders, rounds)
    if spec.kind == "budgets":
        return against_budget(contenders, numbers)
    if spec.kind == "sizes":
        return client_sizes(sizes, "training rows of each client")
    return errors() if spec.kind == "errors" else estimates()


def against_rounds(spec: Panel, contenders: list[Contender], rounds: pl.DataFrame) -> page.Panel:
    """Draw the median of a metric over the seeds against rounds, with a band between the quartiles."""
    names = {contender.name: contender.title for contender in contenders}
    mine = rounds.filter(pl.col("size") == spec.size, pl.col("weights") == "size", pl.col("sampler").is_in(list(names)))
    return quartiles(mine, names, "sampler", "round", spec.metric, f"{METRICS[spec.metric]}, K = {spec.size}")


def against_budget(contenders: list[Contender], numbers: Numbers) -> page.Panel:
    """Draw the mean regret against K on two log axes, with the fitted power of K as a dashed line and in the legend."""
    rows, lines, labels = [], [], []
    for contender in contenders:
        points = [(size, numbers.get(contender.name, size, "regret")) for size in contender.sizes]
        slope, height = fitted(points)
        labels.append(f"{contender.title}: K^{slope:.2f}")
        rows += [compact({"label": labels[-1], "K": size, "regret": value}) for size, value in points if value > 0]
        ends = (min(contender.sizes), max(contender.sizes)) if math.isfinite(slope) else ()
        lines += [compact({"label": labels[-1], "K": size, "regret": math.exp(height + slope * math.log(size))}) for size in ends]
    x = alt.X("K:Q", title="K", scale=alt.Scale(type="log", nice=False, padding=12))
    x = x.axis(values=sorted({row["K"] for row in rows}), format="d")
    y, color = log_axis([row["regret"] for row in rows + lines], "regret:Q"), colored(labels, columns=2)
    common = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=color)
    power = alt.Chart(alt.Data(values=lines)).encode(x=x, y=y, color=color).mark_line(strokeDash=[4, 3], strokeWidth=1.1)
    tip = [alt.Tooltip("label:N", format="", formatType="toString"), "K:Q", alt.Tooltip("regret:Q", format=".3~g")]
    points = common.mark_point(filled=True, size=45, opacity=1).encode(tooltip=tip)
    return finished([power, common.mark_line(strokeWidth=2), points], "cumulative regret against K, and its slope")


def errors(draws: int = 1000, budgets: tuple[int, ...] = (10, 30)) -> page.Panel:
    """Draw the mean squared error of example 3.1 against K: exactly, and of some draws."""
    vectors = case.vectors_at_random()
    norms = np.linalg.norm(vectors, axis=1)
    optimal = jax.jit(capped)
    n, total = len(norms), float(np.sum(vectors.sum(axis=0) ** 2))
    flat = np.full(n, 1 / n)
    rows, points, generator = [], [], np.random.default_rng(0)
    for size in range(1, n):
        best = np.asarray(optimal(jnp.asarray(norms), jnp.asarray(float(size))))
        laws = dict(zip(KINDS, (flat, norms / norms.sum(), flat * size, best), strict=True))
        for kind, p in laws.items():
            again = "with replacement" in kind
            exact = (np.sum(norms**2 / p) - total) / size if again else np.sum((1 - p) / p * norms**2)
            rows.append(compact({"label": kind, "K": size, "error": float(exact)}))
            if size in budgets:
                points.append(compact({"label": kind, "K": size, "error": tried(vectors, p, size, again, draws, generator)}))
    y, x = log_axis([row["error"] for row in rows], "error:Q"), alt.X("K:Q", title="K")
    common = {"x": x, "y": y, "color": colored(list(KINDS), columns=2)}
    line = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2).encode(strokeDash=dashed(list(KINDS), columns=2), **common)
    dots = alt.Chart(alt.Data(values=points)).mark_point(filled=True, size=45, opacity=1).encode(**common)
    return finished([line, dots], "example 3.1: mean squared error against K")


def tried(vectors: np.ndarray, p: np.ndarray, size: int, again: bool, draws: int, generator: np.random.Generator) -> float:
    """Return the mean squared error of `draws` estimates of the sum."""
    if again:
        weights = np.stack([np.bincount(generator.choice(len(p), size, p=p), minlength=len(p)) for _ in range(draws)]) / (
            size * p
        )
    else:
        weights = (generator.random((draws, len(p))) < p) / p
    return float(np.mean(np.sum(((weights - 1) @ vectors) ** 2, axis=1)))


def estimates() -> page.Panel:
    """Draw all estimates of example 3.2 in the plane."""
    kinds = {
        "independent": case.independent(case.INDEPENDENT, case.VECTORS),
        "with replacement": case.replacement(case.REPLACEMENT, case.BUDGET, case.VECTORS),
    }
    rows = [
        {"label": kind, "x": float(each.value[0]), "y": float(each.value[1]), "probability": float(each.probability),
         "drawn": "{" + ", ".join(str(i + 1) for i in each.drawn) + "}"}
        for kind, found in kinds.items() for each in found
    ]  # fmt: skip
    target = case.VECTORS.sum(axis=0)
    tip = [alt.Tooltip(f"{name}:N", format="", formatType="toString") for name in ("label", "drawn")]
    tip.append(alt.Tooltip("probability:Q", format=".3~g"))
    common = alt.Chart(alt.Data(values=rows)).encode(x=alt.X("x:Q", title=None), y=alt.Y("y:Q", title=None))
    area = alt.Size("probability:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1600]), legend=None)
    dots = common.mark_point(filled=True, opacity=0.65).encode(
        color=colored(list(kinds), symbol="circle"), size=area, tooltip=tip
    )
    sides = zip(kinds, (-16, 17), strict=True)
    labels = common.encode(text="drawn:N", color=colored(list(kinds), symbol="circle"))
    names = [labels.mark_text(dy=side, fontSize=10).transform_filter(f"datum.label == '{kind}'") for kind, side in sides]
    cross = alt.Chart(alt.Data(values=[{"x": float(target[0]), "y": float(target[1])}]))
    cross = cross.mark_point(shape="cross", size=120, filled=True, color=LIGHT["soft"], opacity=1).encode(x="x:Q", y="y:Q")
    return finished([dots, *names, cross], "example 3.2: all estimates, K = 2, and the sum")
