"""Charts are specifications that Altair's schema accepts, and a run imports nothing to write them."""

import subprocess
import sys

import altair
import numpy as np
import polars as pl
import pytest
from jsonschema import ValidationError

import turnout as t
from turnout.accounting.ledger import EVENTS
from turnout.report.bounds import bound_chart
from turnout.report.charts import SWITCH_BUTTONS, curves
from turnout.report.loaded_run import Result

ROUNDS = np.arange(6)
THEORY = {"bound": {"rate": 0.5, "start": 1.0, "neighbourhood": 0.01}, "floors": {"1": 0.03}}


def run(**summary) -> Result:
    """A run whose distance halves in each round, and whose accuracy rises."""
    events = dict.fromkeys(EVENTS, ROUNDS)
    trace = pl.DataFrame({"round": ROUNDS, "distance": 0.5**ROUNDS, "accuracy": 1 - 0.5**ROUNDS, **events})
    return Result("run", summary, trace)


PRICES = [t.Hierarchical(0.1, float(c2)) for c2 in range(SWITCH_BUTTONS + 1)]
TARGET = {"metric": "distance", "below": 0.1}
CHARTS = {
    "plain": lambda: curves(run(), "distance", PRICES[:1]),
    "target, bound and floor": lambda: curves(run(target=TARGET, theory=THEORY), "distance", PRICES[:2]),
    "linear": lambda: curves(run(), "accuracy", PRICES),
    "bounds": lambda: bound_chart(ROUNDS, {"a": 0.5**ROUNDS, "b": 0.1**ROUNDS}, "mean", 0.1, 0.2),
    "bound": lambda: bound_chart(ROUNDS, {"a": 0.5**ROUNDS}, "mean"),
}


@pytest.mark.parametrize("kind", CHARTS)
def test_every_kind_of_chart_is_valid(kind):
    altair.Chart.from_dict(CHARTS[kind]())


def test_a_chart_of_no_known_mark_is_not_valid():
    chart = CHARTS["bound"]()
    chart["layer"][0]["mark"]["type"] = "lines"
    with pytest.raises(ValidationError):
        altair.Chart.from_dict(chart)


def test_a_chart_shows_every_point_and_every_rule():
    layers = CHARTS["target, bound and floor"]()["layer"]
    assert [layer["mark"].get("style") for layer in layers if "style" in layer["mark"]] == [
        "bound", "hit", "target", ["halo", "label"], ["target", "label"], "floor", ["halo", "note"], ["floor", "note"],
    ]  # fmt: skip


@pytest.mark.slow
def test_the_page_of_a_run_imports_neither_altair_nor_vega():
    code = "import sys, turnout.report.page; print({'altair', 'vl_convert'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
