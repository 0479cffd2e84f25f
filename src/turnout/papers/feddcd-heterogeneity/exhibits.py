"""The figure over heterogeneity: what each method costs against the share of rows that are sorted by label."""

import polars as pl

import turnout as t
from turnout.report.lines import SCHEMA
from turnout.studies.exhibits import OwnChart


def exhibits(study: t.Study) -> list[OwnChart]:
    """Return a chart for each price."""
    return [chart(study, price) for price in study.declaration.prices]


def chart(study: t.Study, price: str) -> OwnChart:
    """Return the median costs with their quartiles, from one share of sorted rows to the next."""
    label = f"{study.price(price).label} to {study.goal('gap').words}"
    tables = study.declaration.source.tables["problems"]
    values = [
        {
            "share": tables[row["problem"]]["split"]["share"],
            "method": study.declaration.methods[row["method"]].title,
            **{key: row[key] for key in ("cost", "low", "high")},
        }
        for row in study.best("gap", price).filter(pl.col("high").is_finite()).iter_rows(named=True)
    ]
    x = {"field": "share", "type": "quantitative", "title": "share of rows sorted by label"}
    colour = {
        "field": "method",
        "type": "nominal",
        "title": None,
        "legend": {"orient": "bottom", "columns": 2, "symbolOpacity": 1},
    }
    y = {"type": "quantitative", "scale": {"type": "log", "nice": False}, "axis": {"format": "~s"}, "title": label}
    line = {"mark": {"type": "line", "point": True}, "encoding": {"x": x, "y": {"field": "cost", **y}, "color": colour}}
    band = {
        "mark": {"type": "area", "opacity": 0.2},
        "encoding": {"x": x, "y": {"field": "low", **y}, "y2": {"field": "high"}, "color": colour},
    }
    spec = {"$schema": SCHEMA, "data": {"values": values}, "width": 560, "height": 320, "layer": [band, line]}
    caption = "Medians of fresh seeds with bands between the quartiles. Points are missing where a quartile never arrives."
    return OwnChart(f"figure-{price}", f"{label.capitalize()} over heterogeneity", caption, spec)
