"""Files with the speeds of devices, and what is configured of them."""

import json
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import turnout as t
from tests.helpers.federations import play
from turnout.devices.files import COLUMNS, to_csv
from turnout.engines.flower.stopwatch import Stopwatch
from turnout.experiment.config import Reader

HEADER = ",".join(COLUMNS)
SPEED = st.floats(1e-6, 1e12)
SAME_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@SAME_FILE
@given(data=st.data(), n=st.integers(1, 5))
def test_what_is_written_is_read_in_any_order_of_the_lines(tmp_path, data, n):
    speeds = {name: np.array(data.draw(st.lists(SPEED, min_size=n, max_size=n))) for name in COLUMNS[1:]}
    speeds["bandwidth_up"][0] = np.inf
    header, *lines = to_csv(speeds).splitlines()
    file = tmp_path / "devices.csv"
    file.write_text("\n".join([header, "", *data.draw(st.permutations(lines))]))
    fleet = t.Devices.from_csv(file).bind(n)
    for name, microseconds in zip(("latency", "bandwidth_down", "bandwidth_up", "seconds_per_query"), fleet.rates.T, strict=True):
        exact = 1e6 / speeds[name] if name.startswith("bandwidth") else 1e6 * speeds[name]
        np.testing.assert_array_equal(microseconds, exact)


@SAME_FILE
@given(content=st.one_of(st.text(), st.text().map(lambda text: f"{HEADER}\n{text}"), st.text().map(lambda text: f"{{{text}")))
def test_any_text_is_read_or_refused_in_one_sentence(tmp_path, content):
    file = tmp_path / "devices.csv"
    file.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(t.UserError) as refused:
        t.Devices.from_csv(file).bind(2)
    assert "\n" not in str(refused.value).replace(repr(content), "") or "\n" in content


GOOD = "0,0.1,0.5,,1e6"
BAD = {
    "client,seconds": "line 1: the header must be client,",
    f"{HEADER}\n{GOOD}\n1,0.1,0.5,1e6": "line 3: has 4 values, but 5 columns",
    f"{HEADER}\n{GOOD}\n1,0.1,-0.5,1e6,1e6": "line 3: latency must be at least 0 and finite, but is -0.5",
    f"{HEADER}\n{GOOD}\n1,0.1,0.5,0,1e6": "line 3: bandwidth_up must be above 0 and finite, but is 0",
    f"{HEADER}\n{GOOD}\n1,fast,0.5,1e6,1e6": "line 3: seconds_per_query must be a number, but is 'fast'",
    f"{HEADER}\n{GOOD}\n\n1,nan,0.5,1e6,1e6": "line 4: seconds_per_query must be at least 0 and finite",
    f"{HEADER}\n{GOOD}\n2,0.1,0.5,1e6,1e6": "line 3: client '2' is none of the 2 clients",
    f"{HEADER}\n{GOOD}\n{GOOD}": "line 3: client 0 has a line already",
    f"{HEADER}\n{GOOD}": "has 1 of the 2 clients, and not client 1",
}


@pytest.mark.parametrize("content", BAD, ids=[words.split(": ")[-1] for words in BAD.values()])
def test_a_bad_line_is_named_with_its_number(tmp_path, content):
    file = tmp_path / "devices.csv"
    file.write_text(content)
    with pytest.raises(t.UserError, match=BAD[content]):
        t.Devices.from_csv(file).bind(2)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(t.UserError, match="cannot be read"):
        t.Devices.from_csv(tmp_path / "none.csv").bind(2)


CAPACITIES = {str(k): {"computation": 10.0 * k, "communication": 1000.0 * k} for k in range(1, 6)}


def test_capacities_of_fedscale_have_its_units(tmp_path):
    """A gradient of 20 rows at 10 k ms a row takes 3 x 20 x 10 k / 1000 s, and 1000 k kilobits a second are 128,000 k bytes."""
    file = tmp_path / "capacity.json"
    file.write_text(json.dumps(CAPACITIES))
    latency, down, up, query = t.Devices.from_fedscale(file, samples=20).bind(5).rates.T
    np.testing.assert_allclose(np.sort(query) / 0.6e6, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(1e6 / up, 128_000 * query / 0.6e6)
    np.testing.assert_array_equal(up, down)
    assert not np.any(latency)
    assert t.Devices.from_fedscale(file, samples=1).bind(40).rates.shape == (40, 4)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (pickle.dumps(CAPACITIES), "nothing is unpickled"),
        (b"{}", "holds no device"),
        (b"{", "not valid JSON"),
        (b'{"1": {"computation": 1.0}}', "device '1' needs a positive number 'communication'"),
        (b'{"1": {"computation": true, "communication": 1}}', "'computation'"),
        (b'{"1": [1, 2]}', "'computation'"),
    ],
)
def test_other_capacities_are_refused(tmp_path, content, words):
    file = tmp_path / "capacity.json"
    file.write_bytes(content)
    with pytest.raises(t.UserError, match=words):
        t.Devices.from_fedscale(file, samples=1).bind(2)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 200), st.integers(0, 9))
def test_classes_have_their_shares_to_one_client(weights, n, seed):
    shares = [weight / sum(weights) for weight in weights]
    drawn = t.devices.Classes([*map(float, range(len(weights)))], shares).draw(np.random.default_rng(seed), n)
    counts = np.bincount(drawn.astype(int), minlength=len(weights))
    assert counts.sum() == n and np.all(np.abs(counts - n * np.array(shares)) < 1)


def test_log_normal_speeds_have_their_quantiles():
    drawn = np.log(t.devices.LogNormal(3.0, sigma=0.5).draw(np.random.default_rng(0), 20_000))
    np.testing.assert_allclose(np.quantile(drawn, [0.1587, 0.5, 0.8413]), np.log(3) + np.array([-0.5, 0, 0.5]), atol=0.02)


def test_speeds_are_drawn_once_each_by_the_seed():
    devices = t.Devices(t.devices.LogNormal(0.1), latency=t.devices.LogNormal(0.1))
    one, same, other = (each.bind(9).rates for each in (devices, devices, t.Devices(t.devices.LogNormal(0.1), seed=1)))
    np.testing.assert_array_equal(one, same)
    assert np.all(one[:, 3] != other[:, 3]) and np.all(one[:, 3] != one[:, 0])


CONFIGURED = {
    "problem": {"kind": "logistic", "data": "breast_cancer"},
    "split": {"kind": "iid", "clients": 10},
    "sampler": {"kind": "nice", "size": 4},
    "algorithm": {"kind": "fedavg", "lr": 0.1},
    "price": [{"kind": "clock"}, {"kind": "linear", "seconds": 0.5}],
    "faults": {"missing": "skip"},
    "devices": {
        "seconds_per_query": {"kind": "log-normal", "median": 0.1},
        "bandwidth_up": {"kind": "classes", "values": [1e5, 1e6], "shares": [0.5, 0.5]},
        "latency": 0.1,
        "first": 3,
    },
}


def test_a_configuration_of_devices_is_written_as_it_was_read():
    experiment = Reader("file", "", CONFIGURED).experiment("name")
    assert experiment.devices.seconds_per_query == t.devices.LogNormal(0.1)
    again = Reader("file", "", experiment.tables()).experiment("name")
    assert again == experiment
    assert [price.cost({"seconds": 3.0}) for price in experiment.prices] == [3.0, 1.5]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"latency": {"kind": "uniform"}}, "unknown spread kind 'uniform'"),
        ({"latency": -1.0}, "devices.latency: must be at least 0"),
        ({"bandwidth": 1.0}, "unknown key 'bandwidth'"),
        ({"latency": {"kind": "classes", "values": [1.0], "shares": [0.5]}}, "shares of classes sum to one"),
        (3, "is a table"),
    ],
)
def test_a_wrong_configuration_of_devices_is_one_sentence(table, words):
    with pytest.raises(t.UserError, match=words):
        Reader("file", "", CONFIGURED | {"devices": table}).experiment("name")


@pytest.mark.longer
def test_measured_times_are_replayed_by_the_speeds_that_fit_them(tmp_path):
    """Exchanges of two kinds, with 1 and 5 oracle calls: the fit has both times, and a client never seen those of the median."""
    stopwatch = Stopwatch()
    for _ in range(3):
        for client, slow in ((0, 1.0), (2, 3.0)):
            stopwatch.add(client, 0.2 * slow + 0.1 * slow, 1, 40, 40)
            stopwatch.add(client, 0.2 * slow + 0.5 * slow, 5, 40, 40)
    file = tmp_path / "devices.csv"
    file.write_text(stopwatch.to_csv(3))
    fleet = t.Devices.from_csv(file).bind(3)
    one = jnp.ones(1, bool)
    for queries in (1, 5):
        for client, slow in ((0, 1.0), (1, 2.0), (2, 3.0)):
            arguments = (jnp.array([client]), one, one, jnp.array([queries]), jnp.zeros(1, int), (40, 40))
            taken = int(fleet.exchange(*arguments).microseconds[0])
            assert taken == pytest.approx(1e6 * slow * (0.2 + 0.1 * queries), rel=1e-4)
    assert Stopwatch().to_csv(3) is None


@pytest.mark.longer
def test_a_file_plays_the_run_of_its_numbers(tmp_path):
    speeds = {"seconds_per_query": [0.1, 0.2, 0.7], "latency": [0.5, 0.1, 0.0], "bandwidth_up": [80.0] * 3}
    file = tmp_path / "devices.csv"
    arrays = {name: np.array(values) for name, values in speeds.items()}
    file.write_text(to_csv({**arrays, "bandwidth_down": np.full(3, np.inf)}))
    runs = [
        play(t.FedAvg(t.Nice(2), lr=0.05, steps=2), t.Quadratic.random(3, 3, seed=1), 3, devices=devices).trace
        for devices in (t.Devices(**speeds), t.Devices.from_csv(file))
    ]
    assert runs[0].ledger == runs[1].ledger
