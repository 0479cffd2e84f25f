"""Hubs between the server and the clients: the same runs, and on each link the messages and bytes of a count by hand."""

import json

import numpy as np
import polars as pl
import pytest

import turnout as t
from tests.helpers.commands import turnout
from turnout.accounting.ledger import NEW, SERVER
from turnout.core.seeds import Seeds
from turnout.data import IidSplit, NaturalSplit, load
from turnout.experiment.config import read
from turnout.experiment.describe import plan_for
from turnout.runs.setup import bind

CLIENTS, DIMENSION, ROUNDS, SEED = 24, 5, 4, 3
NUMBERS = 8 * DIMENSION
LEVELS = [2, 3]
PATHS = [(i // 12, i // 4) for i in range(CLIENTS)]
"""The two hubs above each client, the higher one first."""

NICE = t.Nice(7)
ALGORITHMS = {
    "fedavg": t.FedAvg(NICE, lr=0.05, steps=2),
    "scaffold": t.Scaffold(NICE, lr=0.05, steps=2),
    "icgm": t.Icgm(NICE, t.RgSaga(), lam=10.0, probability=0.4, smoothness=10.0, delegate=t.Nice(1)),
    "feddcd": t.FedDcd(NICE, t.client_solvers.Bfgs(), convexity=0.1),
    "scaffnew": t.Scaffnew(NICE, lr=0.05, probability=0.5),
    "sppm": t.Sppm(NICE, t.solvers.Bfgs(), gamma=1.0, inner=3),
}


def problem() -> t.Quadratic:
    return t.Quadratic.random(clients=CLIENTS, dimension=DIMENSION, seed=0)


def played(algorithm, hubs=None, **options) -> t.Trace:
    return t.run(algorithm, problem(), **{"rounds": ROUNDS, "seed": SEED, "metrics": ("value",), "hubs": hubs, **options})


def drawn(sampler) -> list[list[int]]:
    """The clients of each round."""
    one = problem()
    bound = bind(sampler, one)
    cohorts = [bound.draw(None, Seeds.of(SEED).draw(k, 0), one.population) for k in range(1, ROUNDS + 1)]
    return [np.asarray(cohort.ids)[np.asarray(cohort.active)].tolist() for cohort in cohorts]


def links(trace) -> list[tuple]:
    return [tuple(int(link[name]) for name in SERVER) for link in trace.ledger.links()]


@pytest.mark.tiers(quick=[], slow=["fedavg-nodes", "scaffnew-nodes", "sppm-compiled"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_hubs_change_nothing_but_what_is_counted_on_their_links(name, engine):
    flat, tree = (played(ALGORITHMS[name], hubs, engine=engine) for hubs in (None, t.Hubs(LEVELS)))
    for leaf, other in zip(np.atleast_1d(flat.x), np.atleast_1d(tree.x), strict=True):
        np.testing.assert_array_equal(leaf, other)
    one, two = (trace.ledger.totals() for trace in (flat, tree))
    assert {name: one[name] for name in one if name not in SERVER} == {name: two[name] for name in two if name not in SERVER}
    assert all(one[name] == one[usual] for name, usual in SERVER.items())
    assert len(links(tree)) == 2 and links(tree)[-1] == tuple(two[name] for name in SERVER)


@pytest.mark.slow
def test_sums_pass_a_link_once_for_each_hub():
    """FedAvg: a message to each hub of the cohort, and one sum from each."""
    trace = played(ALGORITHMS["fedavg"], t.Hubs(LEVELS))
    for level, found in zip((1, 0), links(trace), strict=True):
        hubs = sum(len({PATHS[i][level] for i in cohort}) for cohort in drawn(NICE))
        assert found == (ROUNDS, hubs, hubs, hubs * NUMBERS, hubs * NUMBERS)


@pytest.mark.slow
def test_replies_that_the_server_reads_pass_one_by_one():
    """FedDCD keeps a dual variable of each client at the server."""
    trace = played(ALGORITHMS["feddcd"], t.Hubs(4))
    totals, up = trace.ledger.totals(), sum(map(len, drawn(NICE)))
    assert totals["server_arrivals"] == totals["arrivals"] == up and totals["server_bytes_up"] == totals["bytes_up"]
    hubs = sum(len({i // 6 for i in cohort}) for cohort in drawn(NICE))
    assert totals["server_contacts"] == hubs < totals["contacts"]


EACH = {
    "codec": {"exchange": t.Exchange(up=t.codecs.Qsgd(bits=4))},
    "robust": {"aggregation": t.TrimmedMean(0.2)},
    "bounds": {"faults": t.Faults(0.0, "skip", norm=1e6)},
}


@pytest.mark.tiers(quick=[], longer=["robust"])
@pytest.mark.parametrize("name", EACH)
def test_replies_that_are_no_plain_numbers_of_a_sum_pass_one_by_one(name):
    totals = played(ALGORITHMS["fedavg"], t.Hubs(2), **EACH[name]).ledger.totals()
    assert totals["server_arrivals"] == totals["arrivals"] > totals["server_contacts"]
    assert totals["server_bytes_up"] == totals["bytes_up"]


@pytest.mark.longer
def test_what_each_client_is_sent_for_itself_passes_for_each():
    """Scaffnew sends each client the mean that is owed to it, and a number of steps that is the same for all."""
    trace = played(ALGORITHMS["scaffnew"], t.Hubs(4))
    totals = trace.ledger.totals()
    steps = totals["bytes_down"] - totals["contacts"] * NUMBERS
    each = steps // totals["contacts"]
    assert totals["server_bytes_down"] == totals["contacts"] * NUMBERS + totals["server_contacts"] * each and each > 0


def test_a_tenth_of_the_bytes_of_a_flat_run_reach_the_server():
    """100 clients in ten hubs, all of which take part."""
    one = t.Quadratic.random(clients=100, dimension=DIMENSION, seed=0)
    trace = t.run(t.FedAvg(t.Full(), lr=0.1), one, rounds=2, metrics=("value",), hubs=t.Hubs(10))
    totals = trace.ledger.totals()
    for way in ("up", "down"):
        assert 10 * totals[f"server_bytes_{way}"] == totals[f"bytes_{way}"] == 2 * 100 * NUMBERS


@pytest.mark.slow
def test_a_cohort_inside_one_hub_is_served_by_it():
    """Each of K exchanges of Sppm stays inside; the server sends its state once, and gets the new one."""
    sppm = t.Sppm(t.Block(), t.solvers.Bfgs(), gamma=1.0, inner=3)
    trace, flat = played(sppm, t.Hubs(4)), played(replaced(sppm, [i // 6 for i in range(CLIENTS)]))
    np.testing.assert_array_equal(trace.x, flat.x)
    totals, state = trace.ledger.totals(), NUMBERS + 8
    assert links(trace) == [(ROUNDS, ROUNDS, ROUNDS, ROUNDS * state, ROUNDS * state)]
    price = t.Hierarchical(c1=0.25, c2=1.0)
    assert price.cost(totals) == price.cost(flat.ledger.totals()) == (0.25 * 3 + 1) * ROUNDS


def replaced(sppm, blocks):
    return t.Sppm(t.Block(blocks), sppm.solver, gamma=1.0, inner=3)


@pytest.mark.longer
def test_the_lowest_hub_that_has_the_whole_cohort_serves_it():
    """A cohort of one region but two sites passes the sites' links in each exchange, and the region's once."""
    regions = [path[0] for path in PATHS]
    sppm = t.Sppm(t.Block(regions), t.solvers.Bfgs(), gamma=1.0, inner=3)
    sites, region = links(played(sppm, t.Hubs(LEVELS)))
    assert sites[:2] == (3 * ROUNDS, 3 * 3 * ROUNDS) and region[:2] == (ROUNDS, ROUNDS)


SPEEDS = {"latency": [0.1, 0.02], "bandwidth_up": 1000.0, "bandwidth_down": [2000.0, 4000.0]}
DEVICES = t.Devices(latency=0.002, seconds_per_query=0.001)


@pytest.mark.longer
def test_each_link_takes_its_time():
    """On top of the slowest client: 100 ms to the server and 20 ms to the regions, and what the bytes take."""
    hubs = t.Hubs(LEVELS, **SPEEDS)
    trace, flat = (played(ALGORITHMS["fedavg"], one, devices=DEVICES) for one in (hubs, None))
    each = [0.02 + NUMBERS / 4000 + NUMBERS / 1000, 0.1 + NUMBERS / 2000 + NUMBERS / 1000]
    np.testing.assert_allclose([link["seconds"] for link in trace.ledger.links()], ROUNDS * np.array(each), rtol=1e-9)
    seconds = [run.ledger.totals()["seconds"] for run in (trace, flat)]
    np.testing.assert_allclose(seconds[0] - seconds[1], ROUNDS * sum(each), rtol=1e-9)
    single = played(ALGORITHMS["fedavg"], hubs, devices=DEVICES, precision="single").ledger.links()
    halves = [link["seconds"] for link in single]
    np.testing.assert_allclose(halves, ROUNDS * np.array([0.02 + 20 / 4000 + 0.02, 0.1 + 20 / 2000 + 0.02]), rtol=1e-9)


@pytest.mark.slow
def test_a_cohort_that_is_served_waits_for_the_server_once():
    sppm = t.Sppm(t.Block(), t.solvers.Bfgs(), gamma=1.0, inner=3)
    trace = played(sppm, t.Hubs(4, latency=0.1, bandwidth_up=1000.0), devices=DEVICES)
    (link,), state = trace.ledger.links(), NUMBERS + 8
    np.testing.assert_allclose(link["seconds"], ROUNDS * (0.1 + state / 1000), rtol=1e-9)
    np.testing.assert_allclose(trace.ledger.totals()["seconds"], link["seconds"] + ROUNDS * 3 * 0.003, rtol=1e-9)


@pytest.mark.slow
def test_forwarded_replies_of_a_hub_follow_each_other():
    """The hub with the most clients is waited for."""
    trace = played(ALGORITHMS["feddcd"], t.Hubs(4, bandwidth_up=1000.0), devices=DEVICES)
    most = [max(np.bincount([i // 6 for i in cohort])) for cohort in drawn(NICE)]
    (link,), reply = trace.ledger.links(), trace.ledger.totals()["bytes_up"] / trace.ledger.totals()["arrivals"]
    np.testing.assert_allclose(link["seconds"], sum(most) * reply / 1000, rtol=1e-9)


@pytest.mark.slow
def test_the_sum_of_encrypted_replies_goes_down_to_one_client_and_back():
    plain, hidden = (
        played(ALGORITHMS["fedavg"], t.Hubs(4), engine="nodes", aggregation=how).ledger for how in ("sum", "encrypted")
    )
    one, two = plain.totals(), hidden.totals()
    assert two["server_contacts"] - one["server_contacts"] == two["contacts"] - one["contacts"] == ROUNDS
    sealed = (two["bytes_up"] - 8 * DIMENSION * ROUNDS) // one["arrivals"]
    assert two["server_bytes_up"] == one["server_arrivals"] * sealed + 8 * DIMENSION * ROUNDS


LEARNS = {
    "feedback": t.Sppm(t.Independent(t.KVib(), size=4.0), t.solvers.Bfgs(), gamma=1.0, inner=2),
    "two draws": ALGORITHMS["icgm"],
}


@pytest.mark.tiers(quick=[], slow=["two draws"])
@pytest.mark.parametrize("name", LEARNS)
def test_a_round_that_no_hub_can_play_alone_passes_in_every_exchange(name):
    """All clients have one hub, and yet the server's link has every exchange."""
    totals = played(LEARNS[name], t.Hubs(1)).ledger.totals()
    assert totals["server_exchanges"] == totals["exchanges"]


@pytest.mark.tiers(quick=[], slow=["skip"])
@pytest.mark.parametrize("missing", ["skip", "repeat"])
def test_hubs_sum_the_replies_that_come(missing):
    """A hub whose replies are all lost sends nothing; one that asks again does so by itself."""
    faults = t.Faults(0.6, missing)
    runs = [played(ALGORITHMS["fedavg"], t.Hubs(6), faults=faults, engine=engine) for engine in ("compiled", "nodes")]
    totals = [run.ledger.totals() for run in runs]
    assert totals[0] == totals[1]
    hubs = sum(len({i // 4 for i in cohort}) for cohort in drawn(NICE))
    assert totals[0]["server_contacts"] == hubs
    assert (totals[0]["server_arrivals"] == hubs) == (missing == "repeat") and totals[0]["server_arrivals"] <= hubs


@pytest.mark.slow
def test_two_devices_count_as_one():
    one, two = (played(ALGORITHMS["fedavg"], t.Hubs(LEVELS), mesh=mesh) for mesh in (1, 2))
    assert links(one) == links(two)


@pytest.mark.longer
def test_hubs_are_the_strata_of_samplers():
    trace = played(t.MbGd(t.Stratified(), lr=0.1), t.Hubs(4))
    totals = trace.ledger.totals()
    assert totals["contacts"] == totals["server_contacts"] == 4 * ROUNDS


FORETOLD = {
    "summed": t.FedAvg(t.Full(), lr=0.05),
    "forwarded": t.FedDcd(t.Full(), t.client_solvers.Bfgs(), convexity=0.1),
    "served": t.Sppm(t.Block(), t.solvers.Bfgs(), gamma=1.0, inner=3),
}


@pytest.mark.tiers(quick=[], longer=["summed"])
@pytest.mark.parametrize("name", FORETOLD)
def test_a_description_foretells_both_links(name):
    plan = plan_for(FORETOLD[name], problem(), seeds=Seeds.of(SEED), rounds=ROUNDS, hubs=t.Hubs(4)).totals()
    totals = played(FORETOLD[name], t.Hubs(4)).ledger.totals()
    assert {event: plan[event].least for event in SERVER} == {event: totals[event] for event in SERVER}


@pytest.mark.longer
def test_results_without_these_events_have_those_of_a_flat_run():
    assert {name: NEW[name] for name in SERVER} == SERVER
    frame = played(ALGORITHMS["sppm"]).frame
    assert frame.select(list(SERVER)).equals(frame.select(pl.col(usual).alias(name) for name, usual in SERVER.items()))


TABLE = "client,region,site\n" + "".join(f"{i},r{i // 12},s{i // 4}\n" for i in reversed(range(CLIENTS)))


@pytest.mark.longer
def test_a_table_names_the_hubs_of_each_client(tmp_path):
    file = tmp_path / "hubs.csv"
    file.write_text(TABLE)
    expected = links(played(ALGORITHMS["fedavg"], t.Hubs(LEVELS)))
    for hubs in (t.Hubs(table=file), t.Hubs(of=PATHS)):
        assert links(played(ALGORITHMS["fedavg"], hubs)) == expected


PEOPLE = {
    "x": np.arange(16.0) % 5,
    "label": np.arange(16) % 2,
    "user": [f"user {i % 8}" for i in range(16)],
    "region": [("south", "north", "east")[i % 8 // 3] for i in range(16)],
}
"""Two rows of each of eight users, in regions of three, three and two."""


@pytest.mark.parametrize("kind", ["dict", "pandas", "csv", "parquet"])
def test_a_column_of_the_data_names_the_hubs(kind, tmp_path):
    table, columns = pl.DataFrame(PEOPLE), {"client": "user", "hub": "region"}
    table.write_csv(tmp_path / "people.csv")
    table.write_parquet(tmp_path / "people.parquet")
    sources = {
        "dict": PEOPLE,
        "pandas": table.to_pandas(),
        "csv": tmp_path / "people.csv",
        "parquet": tmp_path / "people.parquet",
    }
    data = load(sources[kind], **columns)
    assert data.columns == ("x",)
    # Users are in the order of their names, and regions too.
    assert NaturalSplit().split(data).strata.tolist() == [2, 2, 2, 1, 1, 1, 0, 0]
    some = NaturalSplit(clients=4, seed=1).split(data)
    regions = [PEOPLE["region"][some.rows(client)[0]] for client in range(some.clients)]
    assert some.strata.tolist() == [sorted({*regions}).index(region) for region in regions]


@pytest.mark.longer
def test_hubs_of_the_data_are_those_of_a_run():
    data = load(PEOPLE, client="user", hub="region")
    problem = t.Logistic.of(data, NaturalSplit().split(data), mu=0.1)
    algorithm = t.FedAvg(t.Nice(3), lr=0.1)
    traces = [t.run(algorithm, problem, rounds=3, hubs=hubs) for hubs in (t.Hubs(of="strata"), t.Hubs(of=PEOPLE["region"][:8]))]
    assert links(traces[0]) == links(traces[1])


MOVED = PEOPLE["region"][:8] + ["north", *PEOPLE["region"][9:]]


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (MOVED, "client user 0 has rows of the hubs south and north: give each client one"),
        ([None, *PEOPLE["region"][1:]], "row 1 lacks a value in column 'region'"),
    ],
    ids=["two", "none"],
)
def test_mistakes_in_a_column_of_hubs_are_told(column, sentence):
    with pytest.raises(t.UserError, match=sentence):
        NaturalSplit().split(load(PEOPLE | {"region": column}, client="user", hub="region"))


def with_ranks() -> t.Grouped:
    data = load("digits")
    digits = t.Network.of(data, IidSplit(clients=2).split(data), hidden=3)
    return t.Grouped.of(digits, t.Adapter("hidden.weight", rank=2, ranks=[1, 2], inputs_first=True), t.Frozen("*"))


BAD = {
    "ranks": (
        lambda: t.run(t.FedAvg(t.Full(), lr=0.1), with_ranks(), rounds=1, hubs=t.Hubs(2)),
        "adapters of clients have several ranks: leave ranks or hubs out",
    ),
    "clock": (lambda: played(ALGORITHMS["fedavg"], t.Hubs(2, latency=0.1)), r"need a clock, which \[devices\] gives"),
    "speeds": (
        lambda: played(ALGORITHMS["fedavg"], t.Hubs(2, latency=[0.1, 0.2])),
        "latency has 2 numbers, but there are 1 levels",
    ),
    "nothing": (lambda: t.Hubs(), r"\[hubs\] has nothing: give one of count, of and table"),
    "two": (lambda: t.Hubs(3, of=[0, 1]), "has count and of: give one"),
    "word": (lambda: t.Hubs(of="regions"), "give the hub of each client, or 'strata'"),
    "empty": (lambda: played(ALGORITHMS["fedavg"], t.Hubs([5, 5])), "makes 25 hubs for 24 clients, so that some are empty"),
    "few": (lambda: played(ALGORITHMS["fedavg"], t.Hubs(of=[0, 1])), "has hubs for 2 clients, but there are 24"),
    "levels": (lambda: played(ALGORITHMS["fedavg"], t.Hubs(of=[0, (0, 1)] * 12)), "clients on different levels"),
    "strata": (lambda: played(ALGORITHMS["fedavg"], t.Hubs(of="strata")), "needs strata: name the column hub of the data"),
    "flights": (lambda: played(t.FedAsync(t.Nice(1), lr=0.1, in_flight=2), t.Hubs(2)), "FedAsync has requests in flight"),
}


@pytest.mark.tiers(longer=["ranks"])
@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told(name):
    make, sentence = BAD[name]
    with pytest.raises(t.UserError, match=sentence):
        make()


TABLES = {
    "gone": (None, "cannot be read"),
    "columns": ("client\n0\n", "needs the column client, and one for each level"),
    "twice": (TABLE + "3,r0,s0\n", "has client 3 twice"),
    "none": (TABLE.replace("3,r0,s0", "3,r0,"), "has no hub for client 3"),
    "missing": (TABLE.replace("3,r0,s0\n", "", 1).replace("13,", "33,"), "has no hub, but clients are 0 to 23"),
    "further": (TABLE + "24,r0,s0\n", "client '24' does not exist, but clients are 0 to 23"),
}


@pytest.mark.parametrize("name", TABLES)
def test_mistakes_in_a_table_are_told(name, tmp_path):
    text, sentence = TABLES[name]
    file = tmp_path / "hubs.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(t.UserError, match=sentence):
        played(ALGORITHMS["fedavg"], t.Hubs(table=file))


TEXT = """
[problem]
kind = "logistic"
data = "breast_cancer"
[split]
kind = "iid"
clients = 8
[sampler]
kind = "full"
[algorithm]
kind = "gd"
lr = 0.1
[hubs]
count = [2, 2]
[run]
rounds = 2
"""


@pytest.mark.longer
def test_a_configuration_has_hubs_and_its_summary_says_so(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(TEXT)
    experiment = read(file)
    again = tmp_path / "again.toml"
    again.write_text(experiment.to_toml())
    assert read(again).hubs == experiment.hubs == t.Hubs([2, 2])
    turnout("run", str(file), "--out", str(tmp_path / "out"))
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    totals = summary["ledger"]["totals"]
    assert summary["hubs"] == {"count": [2, 2], "latency": 0.0}
    assert (
        totals["contacts"] == 2 * 8 and totals["server_contacts"] == 2 * 2 and totals["server_bytes_up"] * 4 == totals["bytes_up"]
    )


@pytest.mark.longer
def test_a_report_names_links_and_leaves_out_those_that_nothing_passed(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(TEXT)
    turnout("run", str(file), "--out", str(tmp_path / "out"))
    page = (tmp_path / "out/report.html").read_text()
    assert all(f"link above hubs of level {level}" in page for level in (1, 2))
    assert "for all exchanges of a hub with its cohort" not in page
