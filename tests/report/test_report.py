"""The report says what the traces say, whatever labels and numbers they hold."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from tests.helpers.cost_estimates import foretell
from turnout.accounting.ledger import EVENTS
from turnout.report.costs import costs_of, main_metric
from turnout.report.downsample import LARGEST, TICKS, log_ticks, points, thin
from turnout.report.format import axis_title, human_bytes, number
from turnout.report.headline import headline
from turnout.report.loaded_run import Result
from turnout.report.page import write_figures, write_report
from turnout.report.pictures import draw
from turnout.report.plan import PLAN
from turnout.report.vega import script_ahead

PRICES = [{"kind": "exchanges"}, {"kind": "hierarchical", "c1": 0.1, "c2": 1.0}]


def result(label: str, distances, exchanges_per_round: int = 1, below: float = 0.1, **summary) -> Result:
    """A run whose distance after each round is given, with `exchanges_per_round` exchanges and one cohort a round."""
    rounds = np.arange(len(distances))
    events = dict.fromkeys(EVENTS, np.zeros(len(rounds), int))
    events |= {"exchanges": exchanges_per_round * rounds, "server_exchanges": rounds, "bytes_up": 800 * rounds}
    trace = pl.DataFrame(
        {"round": rounds, "distance": np.asarray(distances, float), "value": np.asarray(distances, float), **events}
    )
    target = {"metric": "distance", "below": below}
    return Result(label, {"name": label, "target": target, "prices": PRICES, "ledger": {"sites": []}, **summary}, trace)


def halving(label, factor, rounds=12, **options):
    return result(label, factor ** np.arange(rounds), **options)


@pytest.mark.parametrize(("factor", "each", "round_", "paid"), [(0.7, 1, 7, [7, 7.7]), (0.25, 5, 2, [10, 3.0])])
def test_costs_are_those_of_the_first_row_below_the_target(factor, each, round_, paid):
    costs = costs_of(halving("run", factor, exchanges_per_round=each))
    assert costs.round == round_
    np.testing.assert_allclose(list(costs.costs.values()), paid)
    assert headline(costs) == [
        f"run reached distance < 0.1 in round {round_}, at a cost of {paid[0]} under exchanges and {paid[1]:g} under "
        "hierarchical(c1=0.1, c2=1)."
    ]


@pytest.mark.parametrize("prices", [PRICES, [{"kind": "bytes"}]])
def test_the_table_counts_exchanges_in_one_column(tmp_path, prices):
    page = write_report(tmp_path, halving("a", 0.5, prices=prices), "one run").read_text()
    headings = re.findall(r'<th scope="col">(.*?)</th>', page[page.index('<table id="costs">') :].split("</thead>")[0])
    assert headings.count("exchanges") == 1 and len({*headings}) == len(headings)


def test_a_missed_target_is_said_with_the_best_value_and_what_was_spent():
    costs = costs_of(halving("a", 0.99))
    assert headline(costs)[0] == f"distance < 0.1 was not reached; the best was {0.99**11:.4g}."
    assert costs.outcome == f"not reached (best {0.99**11:.4g})" and costs.cells["exchanges"] == "> 11"


def test_what_was_foretold_of_a_run_is_on_the_page(tmp_path):
    plan = PLAN.dump_python(foretell(t.FedAvg(t.Nice(2), lr=0.01, steps=3)), mode="json")
    page = write_report(tmp_path, halving("told", 0.5, plan=plan), "one run").read_text()
    assert page.count("told: calls") == 1 and "<td>random: 1</td>" in page
    assert "calls" not in re.sub(
        "<script>.*?</script>", "", write_report(tmp_path, halving("b", 0.5), "b").read_text(), flags=re.S
    )


def test_prices_of_older_summaries_are_read():
    older = halving("a", 0.5, prices=[{"kind": "rounds"}, {"kind": "bytes"}])
    assert older.prices == [t.Exchanges(), t.Bytes()]


def test_an_axis_names_the_unit_where_the_price_does_not():
    assert axis_title(t.Exchanges()) == ["cumulative cost: exchanges"]
    assert axis_title(t.Selection())[1] == "unit: delegate selections"


@pytest.mark.tiers(everything=["False"])
@pytest.mark.parametrize("broken", [False, True])
def test_a_page_is_the_same_whether_its_script_was_kept_or_could_not_be(tmp_path, monkeypatch, broken):
    (tmp_path / "file").touch()
    pages = []
    for cache in ("cache", "cache", "file"):
        monkeypatch.setenv("TURNOUT_CACHE", str(tmp_path / cache))
        # As in another process.
        script_ahead.cache_clear()
        pages.append(write_report(tmp_path, halving("one", 0.5), "one run").read_bytes())
        kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
        if broken:
            kept[-1].write_bytes(b"\xff")
    assert len(kept) == 1 and len(set(pages)) == 1 and len(pages[0]) > 500_000


@pytest.mark.slow
def test_a_real_run_becomes_a_page_and_figures(tmp_path):
    problem, target = t.Quadratic.random(12, 4, seed=1), t.Target("distance", 0.3)
    run = t.run(t.Sppm(t.Nice(4), t.solvers.Bfgs(), 1.0, 4), problem, rounds=20, target=target).result()
    write_report(tmp_path, run, "a run")
    write_figures(tmp_path, run)
    paths = draw(tmp_path)
    assert [path.name for path in paths] == [f"distance-exchanges.{ending}" for ending in ("svg", "png", "pdf")]
    assert all(path.stat().st_size > 5000 for path in paths)
    page = (tmp_path / "report.html").read_text()
    assert 'src="http' not in page and 'href="http' not in page and "@import" not in page
    assert not list(tmp_path.rglob("*.partial"))


def test_labels_are_text_and_nothing_else(tmp_path):
    hostile = "<script>alert(1)</script> & \"x\" '</script>'"
    write_report(tmp_path, halving(hostile, 0.5, command=hostile), hostile)
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in page
    assert page.count("</script>") == 2


MEMBERS = [
    {"name": "St. Mary's <b>", "standing": "present", "rows": 1200, "refused": 0, "unusable": {}},
    {"name": "north", "standing": "left out", "rows": 0, "refused": 5, "unusable": {"not finite": 5, "no reply within 60 s": 2}},
]


@pytest.mark.parametrize("privacy", [{}, {"privacy": {"epsilon": 3.25}}], ids=["plain", "private"])
def test_a_federation_has_a_table_of_its_members(tmp_path, privacy):
    write_report(tmp_path, halving("run", 0.5, federation={"members": MEMBERS}, **privacy), "run")
    _, table = (tmp_path / "report.html").read_text().split('<table id="members"')
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("</table>")[0].split("<tr>")[1:]]
    epsilon = ["3.25"] if privacy else []
    assert rows[0][-1] == "unusable replies" and ("epsilon" in rows[0]) == bool(privacy)
    assert rows[1] == ["St. Mary&#39;s &lt;b&gt;", "present", "1,200", "0", *epsilon, "none"]
    assert rows[2] == ["north", "left out", "–", "5", *epsilon, "not finite (5); no reply within 60 s (2)"]


def test_a_run_without_a_federation_has_no_table_of_members(tmp_path):
    write_report(tmp_path, halving("run", 0.5), "run")
    assert 'id="members"' not in (tmp_path / "report.html").read_text()


class FirstCells(HTMLParser):
    """The text of the first cell in each row of the page's tables, and the number of script elements."""

    def __init__(self, page: str):
        super().__init__()
        self.cells, self.scripts, self.inside, self.fresh = [], 0, False, False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        if tag == "td" and self.fresh:
            self.cells.append("")
        self.inside = tag == "td" and self.fresh
        self.fresh = tag == "tr"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data


@pytest.mark.longer
@settings(max_examples=15, deadline=None)
@given(st.text(min_size=1))
def test_any_label_is_shown_as_it_is(tmp_path_factory, label):
    path = write_report(tmp_path_factory.mktemp("report"), halving(label, 0.5), label)
    page = FirstCells(path.read_bytes().decode())
    assert page.cells[:1] == [label]
    assert page.scripts == 2


@given(st.lists(st.floats(1 / LARGEST, LARGEST), max_size=5))
def test_ticks_of_a_log_axis_are_few_and_in_sight(values):
    ticks = log_ticks(values)
    if ticks:
        assert 2 <= len(ticks) <= TICKS and ticks == sorted(ticks)
        assert min(values) <= ticks[0] and ticks[-1] <= max(values)
    elif values:
        assert max(values) <= 2.5 * 2 * min(values), "two of 1, 2, 5, 10 always fit into a wider range"


@given(st.lists(st.floats(), min_size=1, max_size=30))
def test_points_are_drawable_and_what_is_left_out_is_counted(distances):
    run = result("any", distances)
    drawn = points(run, "distance", run.prices, log=True)
    assert all(0 < row["metric"] < np.inf for row in drawn.rows)
    hidden = len(distances) - len(drawn.rows)
    assert [note.split()[2] for note in drawn.notes] == ([str(hidden)] if hidden else [])


@pytest.mark.tiers(quick=[], slow=["distances1"])
@pytest.mark.parametrize("distances", [[1.0, 0.0, 0.0], [1.0, np.nan, np.inf], [0.0, 0.0], [5.0]])
def test_values_that_a_log_axis_cannot_show_do_not_break_it(tmp_path, distances):
    write_report(tmp_path, result("odd", distances), "odd")
    write_figures(tmp_path, result("odd", distances))
    assert draw(tmp_path)


@given(st.integers(1, 5000), st.integers(3, 1000), st.data())
def test_a_long_trace_keeps_its_ends_and_its_hit(rows, limit, data):
    hit = data.draw(st.integers(0, rows - 1))
    kept = thin(np.arange(rows), limit, hit)
    assert len(kept) <= max(limit, 3) and {0, hit, rows - 1} <= set(kept.tolist())


def test_without_a_target_the_first_metric_is_drawn():
    bare = result("a", [1.0, 0.5])
    bare.summary["target"] = None
    assert main_metric(bare) == "distance"
    assert headline(costs_of(bare)) == ["No target was set, so there is no cost to reach it."]


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (57_600, "57.6 kB"), (2.5e9, "2.5 GB")])
def test_bytes_are_written_in_decimal_units(value, text):
    assert human_bytes(value) == text


def test_numbers_are_short():
    assert [number(x) for x in (7, 7.7, 15.6, 123456.0, 0.00123)] == ["7", "7.7", "15.6", "123,456", "0.00123"]


@pytest.mark.parametrize("broken", ["missing", "json", "trace"])
def test_a_folder_without_results_is_one_sentence(tmp_path, broken):
    if broken != "missing":
        (tmp_path / "summary.json").write_text("{" if broken == "json" else json.dumps({"prices": []}))
        (tmp_path / "trace.parquet").write_bytes(b"no parquet")
    with pytest.raises(t.UserError):
        Result.read(tmp_path)
