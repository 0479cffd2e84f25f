"""Clients that are never drawn, and how accuracy differs from client to client."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from tests.helpers.commands import config, stored_split
from turnout.data.dataset import Dataset
from turnout.data.holdout import hold_out, only
from turnout.data.splits import Split
from turnout.engines.metrics import OVER_CLIENTS, QUANTILES, over_clients
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.experiment.run import start
from turnout.problems.storage.layout import Padded, Ragged
from turnout.problems.storage.store import store

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.normal(size=(60, 3))
DATA = Dataset("train", ROWS, np.sign(ROWS @ np.array([1.0, -2.0, 0.5]) + GENERATOR.normal(size=60)))
EQUAL, NEAR, UNLIKE = [12] * 5, [14, 10, 12, 13, 11], [40, 3, 5, 5, 7]
METRICS = ("value", *OVER_CLIENTS, "held_out_value", "held_out_accuracy", *(f"held_out_{name}" for name in OVER_CLIENTS))


def split_of(sizes) -> Split:
    return Split.of(np.split(GENERATOR.permutation(60), np.cumsum(sizes)[:-1]), 60)


@pytest.mark.tiers(quick=[], longer=["sizes1-Padded-7-compiled"])
@pytest.mark.parametrize(
    ("sizes", "kind", "rows", "engine"),
    [
        (EQUAL, Padded, 60, "compiled"),
        (NEAR, Padded, 7, "compiled"),
        (UNLIKE, Ragged, 7, "nodes"),
    ],
)
def test_metrics_are_those_of_numpy(monkeypatch, sizes, kind, rows, engine):
    monkeypatch.setattr("turnout.problems.base.ROWS_AT_ONCE", rows)
    split = split_of(sizes)
    trained, held = only(split, np.array([0, 1, 2])), only(split, np.array([3, 4]))
    # Whoever is held out counts by its rows, whatever the weights are.
    problem, other = (
        t.Logistic.of(DATA, trained, 0.1, weights=np.array([1.0, 2, 3])),
        t.Logistic.of(DATA, held, 0.1, weights=np.array([1.0, 9])),
    )
    assert isinstance(store(problem), kind)
    trace = t.run(t.MbGd(t.Nice(2), 0.5), problem, rounds=3, held_out=other, metrics=METRICS, engine=engine)
    margins = DATA.labels * (DATA.features @ trace.x)
    for prefix, part in (("", trained), ("held_out_", held)):
        each = [np.mean(margins[part.rows(i)] > 0) for i in range(part.clients)]
        for name, share in QUANTILES.items():
            assert trace.metrics[prefix + name] == pytest.approx(np.quantile(each, share), rel=1e-12)
        # Of five clients at most, the worst tenth is one.
        assert trace.metrics[f"{prefix}accuracy_worst_decile"] == pytest.approx(min(each), rel=1e-12)
        assert trace.metrics[f"{prefix}accuracy_spread"] == pytest.approx(np.std(each), rel=1e-12)
    assert trace.metrics["held_out_value"] == pytest.approx(np.log1p(np.exp(-margins[held.indices])).mean(), rel=1e-12)
    assert trace.metrics["held_out_accuracy"] == pytest.approx(np.mean(margins[held.indices] > 0), rel=1e-12)


@pytest.mark.slow
def test_clients_of_their_own_tell_their_accuracy():
    problem = t.Logistic.of(DATA, split_of(EQUAL), 0.1)
    remote = t.Remote.of(np.zeros(3), [problem.client(i) for i in range(5)], classifies=True)
    algorithm, metrics = t.MbGd(t.Nice(2), 0.5), ("accuracy_10", "accuracy_worst_decile", "accuracy_spread")
    found = t.run(algorithm, remote, rounds=3, metrics=metrics, engine="nodes")
    known = t.run(algorithm, problem, rounds=3, metrics=metrics)
    for name in metrics:
        np.testing.assert_allclose(found.columns[name], known.columns[name], rtol=1e-12)


@pytest.mark.slow
def test_a_target_may_be_on_a_quantile_and_cells_equal_runs():
    split = split_of(NEAR)
    problem, held = t.Logistic.of(DATA, only(split, np.arange(3)), 0.1), t.Logistic.of(DATA, only(split, np.array([3, 4])), 0.1)
    target = t.Target("held_out_accuracy_10", 0.6)
    single = t.run(t.MbGd(t.Nice(2), 0.5), problem, rounds=3, held_out=held, target=target)
    assert {"value", "accuracy", "held_out_value", "held_out_accuracy", "held_out_accuracy_10"} < {*single.columns}
    swept = t.sweep(t.MbGd(t.Nice(2), 0.1), problem, {"lr": [0.1, 0.5]}, rounds=3, held_out=held, target=target)
    for name in ("held_out_value", "held_out_accuracy_10"):
        np.testing.assert_allclose(swept.traces[1].columns[name], single.columns[name], rtol=1e-12)
    hits = 1 - single.columns["held_out_accuracy_10"] < 0.6
    assert target.first_hit(single.columns) == (int(np.argmax(hits)) if hits.any() else None)


@pytest.mark.longer
@given(st.lists(st.integers(1, 4), min_size=2, max_size=9), st.integers(0, 99), st.data())
def test_no_row_and_no_client_is_on_both_sides(sizes, seed, data):
    split = Split(np.arange(sum(sizes)), np.cumsum([0, *sizes]), data.draw(st.none() | st.just(np.arange(len(sizes)) % 2)))
    clients = data.draw(st.integers(1, len(sizes) - 1) | st.floats(0.01, 0.49))
    trained, held = hold_out(split, clients, seed)
    assert held.clients == (clients if clients >= 1 else max(1, round(clients * len(sizes))))
    assert trained.clients + held.clients == split.clients
    np.testing.assert_array_equal(np.sort(np.concatenate([trained.indices, held.indices])), split.indices)
    for part in (trained, held):
        for i in range(part.clients):
            owner = int(np.searchsorted(split.offsets, part.rows(i)[0], side="right")) - 1
            np.testing.assert_array_equal(part.rows(i), split.rows(owner))
    if split.strata is not None:
        assert {*trained.strata} == {*range(len({*trained.strata}))}
    again = hold_out(split, clients, seed)
    np.testing.assert_array_equal(again[1].indices, held.indices)


@pytest.mark.parametrize("clients", [5, 7, 1.5])
def test_numbers_that_leave_nobody_are_refused(clients):
    with pytest.raises(t.UserError, match="held_out is a whole number of clients, or a share below 1"):
        hold_out(split_of(EQUAL), clients, 0)


@pytest.mark.slow
def test_a_configuration_holds_clients_out(tmp_path):
    problem = {"kind": "logistic", "data": "breast_cancer", "normalize": "rows", "mu": 0.1, "held_out": 0.25}
    path = config(
        tmp_path, problem=problem, sampler={"kind": "nice", "size": 2}, run={"rounds": 2, "metrics": ["held_out_accuracy_10"]},
        target={"metric": "held_out_accuracy", "below": 0.9},
    )  # fmt: skip
    start(read(path), tmp_path / "out", None, lambda session: None, "test")
    facts, split = json.loads((tmp_path / "out" / "summary.json").read_text()), stored_split(tmp_path / "out")
    assert facts["problem"]["clients"] == 9 and split["offsets"].size == 10 and split["held_out_offsets"].size == 4
    assert (
        not {*split["indices"]} & {*split["held_out_indices"]} and split["indices"].size + split["held_out_indices"].size == 569
    )
    assert {"held_out_accuracy", "held_out_accuracy_10"} < {*pl.read_parquet(tmp_path / "out" / "trace.parquet").columns}
    page = (tmp_path / "out" / "report.html").read_text()
    assert "held-out error rate" in page or "error rate of held-out clients" in page
    with pytest.raises(t.UserError, match=r"needs clients that are held out: give \[problem\] held_out"):
        plain = config(tmp_path, "plain", run={"metrics": ["held_out_value"]})
        session_of(read(plain), build(read(plain), None))


@pytest.mark.longer
@given(st.lists(st.floats(0, 1), min_size=1, max_size=35))
@settings(max_examples=40, deadline=None)
def test_the_worst_decile_is_a_mean_of_the_least(each):
    count = int(np.ceil(len(each) / 10))
    values = over_clients(("accuracy_worst_decile", "accuracy_spread"), "", lambda: np.array(each))
    assert float(values["accuracy_worst_decile"]) == pytest.approx(np.mean(sorted(each)[:count]), abs=1e-6)
    assert float(values["accuracy_spread"]) == pytest.approx(np.std(each), abs=1e-6)
