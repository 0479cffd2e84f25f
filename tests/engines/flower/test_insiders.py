"""What single members of a federation say and send: it is bounded, refused by name, and never ends or steers the run."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.in_process import InProcess
from turnout.core.errors import Caution, UserError
from turnout.core.robust_means import CoordinateMedian
from turnout.engines.faults import Faults
from turnout.engines.flower import clients
from turnout.engines.flower.greeting import MOST_REFUSED
from turnout.engines.flower.registry import MOST_ROWS, Member, Registry
from turnout.experiment.config import Reader
from turnout.io.serialization import decode, encode

CLIENTS = 3
TOML = {
    "problem": {"kind": "log-sum", "clients": CLIENTS, "dimension": 4, "parts": 1},
    "sampler": {"kind": "full"},
    "run": {"rounds": 8, "metrics": ["value"]},
    "algorithm": {"kind": "scaffold", "steps": 2, "lr": 0.001},
}
EXPERIMENT = Reader("file.toml", "", TOML).experiment("file")
REPEATING, SKIPPING = (replace(EXPERIMENT, faults=Faults(missing=missing)) for missing in ("repeat", "skip"))
KEYS = tuple(Member(f"hospital {i}", f"key {i}".encode()) for i in range(CLIENTS))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(clients, "FIRST_PAUSE", 0.0)


@pytest.fixture
def told(caplog, monkeypatch):
    """The server's log."""
    monkeypatch.setattr("logging.Logger.propagate", True, raising=False)
    caplog.set_level("WARNING", logger="flwr")
    return caplog


def hello(**changes):
    """Say something else of oneself."""
    return lambda kind, k, reply: json.dumps(json.loads(reply) | changes).encode() if kind == "hello" else reply


def times(factor: float, until: int | None = None):
    """Multiply replies to requests by `factor`, up to the request with the number `until`."""

    def misdeed(kind, k, reply):
        if kind != "ask" or (until is not None and k > until):
            return reply
        tree, header = decode(reply, None)
        return encode(jax.tree.map(lambda leaf: leaf * factor, tree), None, header)

    return misdeed


def silent(kind, k, reply):
    """Answer the greeting only."""
    return reply if kind == "hello" else None


@pytest.mark.longer
def test_a_node_is_the_client_of_its_key_whatever_it_says():
    """The node of client 2 says that it is client 1: the run goes on with the others."""
    federation = InProcess(SKIPPING, {2: hello(client=1)}, Registry(KEYS))
    nodes = federation.greeted()
    assert [nodes[i].node for i in range(CLIENTS)] == [10, 11, None]
    (reason,) = +federation.counts
    assert reason.startswith("refused: a node says that it is client 1, but its key is that of hospital 2")
    totals = federation.session().run().trace.ledger.totals()
    assert totals["arrivals"] == 8 * 2 and {who for kind, asked in federation.asked if kind == "ask" for who in asked} == {0, 1}


def test_a_node_whose_key_is_not_registered_is_no_client():
    strangers = (*KEYS[:2], Member("hospital 2", b"another key"))
    with pytest.raises(
        UserError, match="first is hospital 2; refused: a node says that it is client 2, but its key is not in the"
    ):
        InProcess(EXPERIMENT, {}, Registry(strangers)).greeted()


def test_without_keys_the_first_of_two_nodes_is_the_client():
    federation = InProcess(SKIPPING, {2: hello(client=1)})
    assert federation.greeted()[1].node == 11 and federation.greeted()[2].node is None
    assert any("a second node says that it is client 1" in reason for reason in federation.counts)


@pytest.mark.parametrize("rows", [MOST_ROWS + 1, 2**31 - 1, 10**4000])
def test_a_node_cannot_say_that_it_has_more_rows_than_the_registry_allows(rows):
    with pytest.raises(UserError, match="client 1 says that it has .* rows: write down how many it has if they are more than"):
        InProcess(EXPERIMENT, {1: hello(rows=rows)}, Registry(KEYS)).greeted()


def test_a_registered_number_of_rows_counts_whatever_the_node_says():
    members = (KEYS[0], replace(KEYS[1], rows=7), KEYS[2])
    nodes = InProcess(EXPERIMENT, {1: hello(rows=3_000_000)}, Registry(members)).greeted()
    assert (nodes[1].rows, nodes[1].claimed, nodes[0].claimed) == (7, False, True)


@pytest.mark.longer
def test_the_summary_says_that_rows_are_a_claim():
    federation = InProcess(EXPERIMENT, {1: hello(rows=3_000_000)}, Registry((replace(KEYS[0], rows=1), *KEYS[1:])))
    facts = federation.session().engine.facts()["federation"]
    assert facts["rows_claimed"] == {"hospital 1": 3_000_000, "hospital 2": 1}


@pytest.mark.parametrize("body", [b"[" * 50_000, b'{"client": "' + b"x" * 50_000 + b'", "rows": 1}', b"\xff" * 100])
def test_a_strange_hello_is_refused_in_few_words(body):
    federation = InProcess(SKIPPING, {2: lambda kind, k, reply: body if kind == "hello" else reply}, Registry(KEYS))
    assert federation.greeted()[2].node is None and max(map(len, federation.counts)) < 300


def test_a_node_that_changes_its_story_does_not_fill_the_log():
    federation = InProcess(SKIPPING, {2: lambda kind, k, reply: json.dumps({"client": -k, "rows": 1}).encode()}, Registry(KEYS))
    federation.greeted(timeout=3.0)
    assert 1 < len([reason for reason in federation.counts if reason.startswith("refused")]) <= 10


@pytest.mark.tiers(longer=["3"], everything=["1"])
@pytest.mark.parametrize("bad", [1, 3])
def test_a_passing_nan_is_computed_anew(bad):
    """The first replies of client 1 are NaN, as the reply that its node has stored."""
    federation = InProcess(REPEATING)
    node, answer, seen = federation.members[1], federation.members[1].runner.run, []

    def run(*arguments):
        seen.append(0)
        done = answer(*arguments)
        return done._replace(reply=jax.tree.map(lambda leaf: leaf * np.nan, done.reply)) if len(seen) <= bad else done

    node.runner.run = run
    trace = federation.session().run().trace
    expected = InProcess(EXPERIMENT).session().run().trace
    np.testing.assert_array_equal(trace.x, expected.x)
    np.testing.assert_array_equal(trace.columns["value"], expected.columns["value"])
    assert len(seen) == 8 + bad and federation.counts["not finite"] == bad
    assert trace.ledger.totals()["contacts"] == expected.ledger.totals()["contacts"] + bad


@pytest.mark.longer
def test_a_lost_reply_is_not_computed_anew():
    federation = InProcess(REPEATING, {1: lambda kind, k, reply: None if kind == "ask" and k == 2 else reply})
    node, seen = federation.members[1], []
    run = node.runner.run
    node.runner.run = lambda *arguments: seen.append(0) or run(*arguments)
    federation.session().run()
    assert len(seen) == 8 and federation.counts["late or missing"] == 1


@pytest.mark.tiers(longer=["misdeed-not finite"])
@pytest.mark.parametrize(("misdeed", "why"), [(times(np.nan), "not finite"), (silent, "no reply within 60 s")])
def test_a_client_that_never_answers_well_ends_the_run_in_a_sentence(misdeed, why, told):
    """Under "repeat", after a number of requests, each of which is told by the client's name."""
    federation = InProcess(REPEATING, {1: misdeed}, Registry(KEYS))
    with pytest.raises(UserError, match=f"hospital 1: {why}, after {clients.TRIES} requests: look into the logs"):
        federation.session().run()
    lines = [record.getMessage() for record in told.records]
    assert sum(line.startswith(f"hospital 1: {why}: asked again in") for line in lines) == clients.TRIES - 1


@pytest.mark.longer
def test_a_client_whose_replies_are_refused_in_a_row_is_left_out_by_name(told):
    federation = InProcess(SKIPPING, {1: times(np.nan)}, Registry(KEYS))
    session = federation.session().run()
    asked = [1 in who for kind, who in federation.asked if kind == "ask"]
    assert asked == [True] * MOST_REFUSED + [False] * (8 - MOST_REFUSED)
    facts = session.engine.facts()["federation"]
    assert facts["left_out"] == ["hospital 1"]
    assert [member["unusable"] for member in facts["members"]] == [{}, {"not finite": MOST_REFUSED}, {}]
    assert "hospital 1: left out from now on, after 5 refused replies" in told.text


def test_a_run_of_which_all_clients_are_left_out_ends_in_a_sentence():
    with pytest.raises(UserError, match="hospital 0, hospital 1, hospital 2: left out, and the others are too few"):
        InProcess(SKIPPING, {i: times(np.nan) for i in range(CLIENTS)}, Registry(KEYS)).session().run()


def test_a_client_that_is_away_for_a_while_is_not_left_out():
    federation = InProcess(SKIPPING, {1: lambda kind, k, reply: None if kind == "ask" and k <= 6 else reply})
    federation.session().run()
    assert [1 in who for kind, who in federation.asked if kind == "ask"] == [True] * 8


def test_divergence_by_one_client_names_it():
    with pytest.warns(Caution, match="hospital 1 replied with numbers up to .*look at this client"):
        session = InProcess(SKIPPING, {1: times(1e30)}, Registry(KEYS)).session().run()
    assert session.trace.diverged is not None and session.engine.suspect().startswith("hospital 1 replied with numbers up to ")
    fast = replace(EXPERIMENT, algorithm=replace(EXPERIMENT.algorithm, lr=1e3), run=replace(EXPERIMENT.run, rounds=60))
    with pytest.warns(Caution, match="lower the step size"):
        session = InProcess(fast).session().run()
    assert session.trace.diverged is not None and session.engine.suspect() is None


AVERAGING = Reader("file.toml", "", TOML | {"algorithm": {"kind": "fedavg", "steps": 2, "lr": 0.001}}).experiment("file")


@pytest.mark.longer
def test_a_median_of_replies_is_not_steered_by_one_client():
    """The run with honest clients and the run with one that sends 1e30 times its reply end close to each other."""
    robust = replace(AVERAGING, run=replace(AVERAGING.run, aggregation=CoordinateMedian()))
    honest, attacked = (InProcess(robust, misdeeds).session().run().trace for misdeeds in ({}, {1: times(1e30)}))
    with pytest.warns(Caution, match="client 1 replied with numbers up to"):
        alone = InProcess(AVERAGING, {1: times(1e30)}).session().run().trace
    assert alone.diverged is not None and attacked.diverged is None
    fallen, expected = (trace.columns["value"][0] - trace.metrics["value"] for trace in (attacked, honest))
    assert fallen > 0.8 * expected > 0


@pytest.mark.longer
def test_replies_above_the_norm_are_refused_by_name(told):
    federation = InProcess(replace(AVERAGING, faults=Faults(missing="skip", norm=1e3)), {1: times(1e30)}, Registry(KEYS))
    trace = federation.session().run().trace
    assert trace.diverged is None and federation.counts["longer than norm = 1000"] == MOST_REFUSED
    assert "hospital 1: longer than norm = 1000: left out of this exchange" in told.text


@pytest.mark.longer
def test_replies_above_the_norm_are_clipped():
    clipped = replace(AVERAGING, faults=Faults(missing="skip", clip=1.0))
    trace = InProcess(clipped, {1: times(1e30)}).session().run().trace
    assert trace.diverged is None and np.abs(trace.x).max() < 10
