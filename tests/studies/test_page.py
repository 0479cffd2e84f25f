"""The page of a study: it holds every table, needs nothing from elsewhere, and its figures are files as well."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import turnout as t
from tests.helpers.studies import STUDY, tables
from turnout.report.pictures import draw
from turnout.studies.study import Study

NAME = "Minibatch </script> & a name that is rather long for a narrow screen"


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> tuple[Study, Path]:
    folder = tmp_path_factory.mktemp("study")
    study = tables(
        STUDY.replace(
            "share = 0.5", 'share = 0.5\n\n[goals.best]\nmetric = "value"\n\n[goals.far]\nmetric = "gradient"\nshare = 0.9'
        )
    )
    study["methods"]["mbgd"]["title"] = NAME
    return t.study({**study, "pictures": True}, folder), folder


class Page(HTMLParser):
    """The sections, the tables' cells, the addresses and the descriptions of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.sections: list[tuple] = []
        self.cells: list[list[str]] = []
        self.addresses: list[str] = []
        self.described: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.inside = tag
        self.addresses += [value for key, value in attrs if key in ("src", "href") and value]
        if tag == "section":
            self.sections.append((given["data-goal"], given.get("data-price"), "hidden" in given))
            self.cells.append([])
        if given.get("role") == "img":
            self.described.append(given["aria-label"] or "")

    def handle_data(self, data):
        if self.inside in ("td", "th", "span") and self.cells and data.strip():
            self.cells[-1].append(data)


@pytest.mark.slow
def test_every_table_of_a_goal_and_a_price_is_on_the_page(played):
    study, folder = played
    page = Page((folder / "report.html").read_text())
    pairs = [("near", "exchanges"), ("near", "dear"), ("best", None), ("far", "exchanges"), ("far", "dear")]
    assert page.sections == [(*pair, k > 0) for k, pair in enumerate(pairs)]
    for (goal, price), cells in zip(study.tables(), page.cells, strict=True):
        for row in study.table(goal, price).rows:
            assert {row.method, row.cost, row.quartiles, row.reached} <= {*cells}


@pytest.mark.longer
def test_methods_are_counted_that_play(tmp_path):
    t.study(tables(STUDY), tmp_path, problems=["flat"])
    assert ", 1 method, 1 problem</p>" in (tmp_path / "report.html").read_text()


@pytest.mark.longer
def test_the_page_needs_nothing_from_elsewhere(played):
    _, folder = played
    text = (folder / "report.html").read_text()
    page = Page(text)
    assert page.addresses == ["data:,"] and "@import" not in text and not re.search(r"url\(['\"]?http", text)
    own = text[text.index('<script type="module">') :]
    assert own.count("</script>") == 1 and "http" not in own


@pytest.mark.longer
def test_tables_to_save_are_those_of_the_folder(played):
    study, folder = played
    text = (folder / "report.html").read_text()
    saved = json.loads(re.search(r"const tables = (.*);\n", text)[1])
    assert list(saved) == [f"{goal}, {price}" for goal, price in study.tables()]
    assert saved["near, dear"]["csv"] == (folder / "tables" / "near-dear.csv").read_text()
    assert saved["near, dear"]["tex"] == (folder / "tables" / "near-dear.tex").read_text()


@pytest.mark.slow
def test_charts_have_descriptions_and_few_points(played):
    study, folder = played
    text = (folder / "report.html").read_text()
    charts = json.loads(re.search(r"const charts = (.*);\n", text)[1])
    page = Page(text)
    # Default figures: two metrics, two prices, two problems.
    assert len(charts) == len(page.described) == 8
    assert all("squared gradient norm" in words or "loss" in words for words in page.described)
    for chart in charts.values():
        for line in chart["lines"]:
            assert len(line["x"]) == len(line["median"]) <= 120
            assert all(float(f"{value:.5g}") == value for value in line["median"] if value is not None)


@pytest.mark.longer
def test_provenance_verdicts_and_what_broke_are_on_the_page(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace("lr = 1.0 }", "lr = 1.0 }\nfaults = { loss = 0.5 }").replace("seeds = 3", "seeds = 1"))
    study = t.study(path, tmp_path / "out", command="turnout study study.toml")
    text = (tmp_path / "out" / "report.html").read_text()
    assert study.broken and text.count("replies were lost") == len(study.broken)
    assert "is not decided" in text and "turnout study study.toml" in text and "seed 0" in text
    assert "similarity = 5.0" in text


@pytest.mark.longer
def test_a_figure_is_written_as_svg_png_and_pdf(played):
    _, folder = played
    names = {path.name for path in (folder / "figures").iterdir()}
    assert names == {f"figure-{metric}.{ending}" for metric in ("value", "gradient") for ending in ("svg", "png", "pdf")}
    svg = (folder / "figures" / "figure-gradient.svg").read_text()
    assert svg.startswith("<svg") and "FedAvg" in svg
    assert (folder / "figures" / "figure-value.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "figures" / "figure-value.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_without_pictures_a_study_leaves_the_charts_that_are_drawn_later(tmp_path):
    """As they are drawn by the study itself."""
    study = {**tables(STUDY), "seeds": 1, "claims": []}
    t.study(study, tmp_path)
    assert not (tmp_path / "figures").exists()
    drawn = {path.name: path.read_bytes() for path in draw(tmp_path) if path.suffix == ".svg"}
    t.study({**study, "pictures": True}, tmp_path)
    assert {path.name: path.read_bytes() for path in (tmp_path / "figures").glob("*.svg")} == drawn


@pytest.mark.slow
def test_a_study_of_which_nothing_could_be_played_has_a_page(tmp_path):
    study = tables(STUDY)
    study["methods"] = {"fedavg": {**study["methods"]["fedavg"], "faults": {"loss": 0.999}}}
    done = t.study({**study, "seeds": 1, "claims": []}, tmp_path)
    assert len(done.broken) == 4 and "replies were lost" in (tmp_path / "report.html").read_text()
