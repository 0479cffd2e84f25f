"""Seconds in cost estimates, reports and results of earlier versions."""

import numpy as np
import polars as pl
import pytest

import turnout as t
from tests.helpers.federations import play
from turnout.accounting.ledger import NEW
from turnout.experiment.describe import plan_for
from turnout.report.costs import costs_of
from turnout.report.loaded_run import Result
from turnout.report.plan import NamedPlan, calls, side_by_side
from turnout.runs.options import RunOptions

DEVICES = t.Devices([0.1, 0.2, 0.4], latency=0.5)


def three() -> t.Problem:
    return t.Quadratic.random(3, 3, seed=1)


def foretold(algorithm, rounds=4, **options):
    return plan_for(algorithm, three(), seeds=t.Seeds.of(3), rounds=rounds, **options)


@pytest.mark.longer
def test_seconds_that_do_not_depend_on_chance_are_foretold():
    algorithm = t.FedAvg(t.Full(), lr=0.01, steps=4)
    plan, run = foretold(algorithm, devices=DEVICES), play(algorithm, three(), 4, devices=DEVICES)
    seconds = plan.totals()["seconds"]
    assert seconds.least == seconds.most == pytest.approx(run.trace.ledger.totals()["seconds"]) == pytest.approx(4 * 2.1)
    assert plan.cost(t.Clock()).most == seconds.most


@pytest.mark.longer
def test_seconds_of_random_cohorts_are_means():
    """Two of three clients: the slowest is client 1 in one cohort of three, and client 2 in the others."""
    seconds = foretold(t.MbGd(t.Nice(2), lr=0.01), devices=DEVICES).totals()["seconds"]
    mean = 4 * (0.5 + 0.2 / 3 + 0.4 * 2 / 3)
    assert 0 < seconds.error < 0.05 * mean and abs(seconds.most - mean) < 5 * seconds.error


def test_tables_have_seconds_where_there_are_devices():
    algorithm = t.FedAvg(t.Full(), lr=0.01, steps=4)
    with_devices, without = (NamedPlan("name", foretold(algorithm, **options), ()) for options in ({"devices": DEVICES}, {}))
    table = calls(with_devices)
    assert table.headings[-1] == "seconds of an exchange" and [row[-1] for row in table.rows] == ["–", "2.1"]
    assert table.headings[:-1] == calls(without).headings
    assert ["seconds on the clock a round", "2.1"] in side_by_side([with_devices]).rows
    assert not any("seconds" in row[0] for row in side_by_side([without]).rows)


def test_availability_on_the_clock_is_not_foretold():
    sampler = t.Available(t.Nice(2), trace=[[0, 0, 5], [1, 0, 9], [2, 4, 8]], unit="seconds")
    contacts = foretold(t.MbGd(sampler, lr=0.01), devices=DEVICES).totals()["contacts"]
    assert contacts.most is None or contacts.least < contacts.most


@pytest.mark.longer
def test_costs_have_seconds_where_there_is_a_clock():
    run, still = (play(t.MbGd(t.Full(), lr=0.01), three(), 3, devices=devices).trace for devices in (DEVICES, None))
    assert costs_of(run.result()).cells["seconds on the clock"] == "2.7"
    assert "seconds on the clock" not in costs_of(still.result()).cells
    assert run.cost(t.Clock()) is None and t.LinearPrice(seconds=2.0).cost(run.frame)[-1] == pytest.approx(5.4)
    axis = run.chart(t.Clock(), metric="value").to_dict()["title"]["text"]["expr"]
    assert "seconds on the clock" in axis


@pytest.mark.longer
def test_results_of_earlier_versions_have_no_clock(tmp_path):
    trace = play(t.MbGd(t.Full(), lr=0.01), three(), 2, target=t.Target("value", 1e-9)).trace
    (tmp_path / "summary.json").write_text('{"name": "earlier"}')
    trace.frame.drop(NEW).write_parquet(tmp_path / "trace.parquet")
    result = Result.read(tmp_path)
    np.testing.assert_array_equal(result.trace["seconds"], np.zeros(3))
    assert {*NEW} <= {*result.trace.columns} and isinstance(result.trace, pl.DataFrame)


def test_devices_are_options_of_a_run():
    assert RunOptions(rounds=1, devices=DEVICES).devices is DEVICES
    with pytest.raises(t.UserError, match="a Devices such as t.Devices"):
        RunOptions(rounds=1, devices=0.1)
