"""turnout figures draws what a folder of results holds, and says what is wrong with one that holds nothing."""

import json

import numpy as np
import pytest

from tests.helpers.commands import turnout
from turnout.report.bounds import bound_chart
from turnout.report.pictures import CHARTS, write_charts

CHART = bound_chart(np.arange(3), {"Theorem 1": np.array([1.0, 0.5, 0.25])}, "mean")
MAGIC = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.mark.slow
def test_every_chart_is_drawn_in_every_format(tmp_path):
    names = ["one", "two", "three"]
    write_charts(tmp_path, dict.fromkeys(names, CHART))
    code, said, wrong = turnout("figures", tmp_path)
    assert (code, wrong) == (0, "") and said.split() == ["9", "files", "in", str(tmp_path / "figures")]
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()}
    assert set(drawn) == {f"{name}.{ending}" for name in names for ending in MAGIC}
    assert all(content.startswith(MAGIC[name.rpartition(".")[2]]) for name, content in drawn.items())
    assert b"Theorem 1" in drawn["two.svg"] or b"bound on the mean" in drawn["two.svg"]


@pytest.mark.tiers(longer=["content5-cannot be drawn"])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "holds no figures.json"),
        ("{", "cannot be read"),
        ("[]", "must hold a JSON object"),
        (json.dumps({"../elsewhere": CHART}), "must hold a JSON object"),
        ("{}", "nothing to draw"),
        (json.dumps({"bad": {**CHART, "layer": 3}}), "cannot be drawn"),
    ],
)
def test_a_folder_without_charts_is_refused_in_one_sentence(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / CHARTS).write_text(content)
    code, said, wrong = turnout("figures", tmp_path)
    assert (code, said) == (2, "") and wrong.count("\n") == 1 and sentence in wrong, wrong
