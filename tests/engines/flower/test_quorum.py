"""Clients that come late, leave, come back, get another key or are revoked during a run."""

import time
from dataclasses import replace

import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from tests.helpers.in_process import InProcess
from turnout.core.errors import UserError
from turnout.engines.faults import Faults
from turnout.engines.flower import greeting, keys, membership
from turnout.engines.flower.key_request import write_request
from turnout.engines.flower.registry import Member, Registry, RegistryFile
from turnout.experiment.config import Reader, read
from turnout.federation.handshake import handshake_of
from turnout.federation.server import connect_clients, start_or_resume
from turnout.runs.session import Session

CLIENTS, ROUNDS = 4, 8
TOML = {
    "problem": {"kind": "log-sum", "clients": CLIENTS, "dimension": 4, "parts": 1},
    "sampler": {"kind": "full"},
    "run": {"rounds": ROUNDS, "metrics": ["value"]},
    "algorithm": {"kind": "scaffold", "steps": 2, "lr": 0.001},
}
EXPERIMENT = Reader("file.toml", "", TOML).experiment("file")
REPEATING, SKIPPING = (replace(EXPERIMENT, faults=Faults(missing=missing)) for missing in ("repeat", "skip"))
FRIENDS = Reader("file.toml", "", TOML | {"sampler": {"kind": "available", "probability": 0.5, "sampler": "full"}})


@pytest.fixture
def told(caplog, monkeypatch):
    """The server's log."""
    monkeypatch.setattr("logging.Logger.propagate", True, raising=False)
    caplog.set_level("WARNING", logger="flwr")
    return caplog


class Changing(InProcess):
    """A federation with a set of nodes for each round: who comes and goes does so before the round."""

    def __init__(self, experiment, present: list[set[int]], **options):
        super().__init__(experiment, **options)
        self.all, self.present = dict(self.apps), present
        self.enter(0)

    def enter(self, number: int) -> None:
        self.apps = {10 + i: self.all[10 + i] for i in self.present[min(number, len(self.present) - 1)]}

    def play(self) -> Session:
        session = self.session()
        session.engine.every = 1
        for _ in session.play():
            self.enter(session.round)
        return session


def one_round_a_chunk(monkeypatch):
    monkeypatch.setattr("turnout.runs.session.CHUNK_SECONDS", 0.0)


def lost(present: list[set[int]]) -> Session:
    """The same run with all nodes there, of which the others do not answer."""

    def misdeed(client):
        return lambda kind, k, reply: reply if kind != "ask" or client in present[min(k - 1, len(present) - 1)] else None

    return InProcess(SKIPPING, {i: misdeed(i) for i in range(CLIENTS)}).session().run()


@pytest.mark.tiers(quick=[], longer=["present1"])
@pytest.mark.parametrize("present", [[{0, 1, 2}] * 3 + [{0, 1, 2, 3}], [{0, 1, 2, 3}] * 2 + [{0, 2}] * 3 + [{0, 1, 2}]])
def test_who_is_away_counts_as_a_lost_reply(present, monkeypatch, told):
    """To the bit; who is away is not asked, and who comes is."""
    one_round_a_chunk(monkeypatch)
    federation = Changing(SKIPPING, present, quorum=len(present[0]) if len(present[0]) < CLIENTS else 2)
    real, expected = federation.play(), lost(present)
    np.testing.assert_array_equal(real.trace.x, expected.trace.x)
    asked = [{*who} for kind, who in federation.asked if kind == "ask"]
    assert asked == [present[min(k, len(present) - 1)] for k in range(ROUNDS)]
    assert ("client 3: joined" in told.text) == (3 not in present[0])
    assert ("client 1: connected again" in told.text) == (3 in present[0])


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.sets(st.integers(0, CLIENTS - 1), min_size=1), min_size=ROUNDS, max_size=ROUNDS))
def test_any_coming_and_going_is_that_of_lost_replies(present):
    with pytest.MonkeyPatch.context() as patch:
        one_round_a_chunk(patch)
        real = Changing(SKIPPING, present, quorum=1).play()
    np.testing.assert_array_equal(real.trace.x, lost(present).trace.x)


@pytest.mark.longer
@settings(max_examples=15, deadline=None)
@given(st.lists(st.sets(st.integers(0, CLIENTS - 1), min_size=1), min_size=ROUNDS, max_size=ROUNDS))
def test_the_sampler_of_available_clients_draws_nobody_who_is_away(present):
    experiment = replace(FRIENDS.experiment("file"), faults=Faults(missing="skip"))
    with pytest.MonkeyPatch.context() as patch:
        one_round_a_chunk(patch)
        federation = Changing(experiment, present, quorum=1)
        totals = federation.play().trace.ledger.totals()
    assert totals["contacts"] == totals["arrivals"] == totals["available"] == sum(map(len, present))


@pytest.mark.slow
def test_with_repeat_the_run_waits_for_who_is_needed(monkeypatch, told):
    """And is the run of all clients."""
    federation = Changing(REPEATING, [{0, 1, 2}], quorum=0.75)
    monkeypatch.setattr(greeting, "TELL_EVERY", 0.0)
    monkeypatch.setattr(time, "sleep", lambda seconds: federation.apps.update(federation.all))
    np.testing.assert_array_equal(federation.session().run().trace.x, InProcess(EXPERIMENT).session().run().trace.x)
    assert "waiting for client 3, whose reply is needed" in told.text and "client 3: joined" in told.text


@pytest.mark.longer
def test_below_the_quorum_the_run_waits(monkeypatch, told):
    one_round_a_chunk(monkeypatch)
    monkeypatch.setattr(greeting, "TELL_EVERY", 0.0)
    federation, waits = Changing(SKIPPING, [{0, 1, 2}] * 3 + [{0}] + [{0, 2, 3}], quorum=3), []
    monkeypatch.setattr(time, "sleep", lambda seconds: waits.append(seconds) or federation.enter(ROUNDS))
    federation.play()
    assert all(len(who) == 3 for kind, who in federation.asked if kind == "ask")
    assert len(waits) == 1 and "waiting for 3 clients, of which 1 are connected" in told.text


@pytest.mark.parametrize(("quorum", "enough"), [(3, 3), (0.5, 2), (0.51, 3), (1.0, 4), (0.75, 3), (1, 1)])
def test_the_quorum_is_a_number_or_a_share(quorum, enough):
    federation = InProcess(SKIPPING, quorum=quorum)
    assert federation.greeted().least == enough
    federation.apps = {10 + i: federation.apps[10 + i] for i in range(enough - 1)}
    with pytest.raises(UserError, match=f"{CLIENTS - enough + 1} clients did not answer within 0 s, the first is client"):
        federation.greeted()


def test_a_quorum_that_cannot_be_is_a_sentence():
    with pytest.raises(UserError, match="the run needs 5 clients, but only 4 are registered"):
        InProcess(SKIPPING, quorum=5).greeted()
    experiment = Reader("file.toml", "", TOML | {"federation": {"start": 3}}).experiment("file")
    with pytest.raises(UserError, match="set \\[faults\\] missing to 'skip' or 'repeat'"):
        connect_clients(None, experiment, None, 60.0)


def test_nodes_need_not_know_the_quorum():
    built = InProcess(EXPERIMENT).built
    other = Reader("file.toml", "", TOML | {"federation": {"start": 3}}).experiment("file")
    assert handshake_of(other, built) == handshake_of(EXPERIMENT, built)


@pytest.mark.longer
def test_a_run_of_all_resumes_with_a_quorum(tmp_path, monkeypatch):
    """Another table [federation] is no other configuration; the result is that of lost replies."""
    one_round_a_chunk(monkeypatch)
    tables = TOML | {"faults": {"missing": "skip"}}
    for name, more in (("all", {}), ("some", {"federation": {"start": 3}})):
        (tmp_path / f"{name}.toml").write_text(tomli_w.dumps({"name": "run"} | tables | more))
    federation, out = InProcess(SKIPPING), tmp_path / "out"

    def watch(session):
        if session.round == 3 and len(federation.apps) == CLIENTS:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start_or_resume(federation, federation.greeted(), tmp_path / "all.toml", out, None, watch, "")
    federation.quorum = read(tmp_path / "some.toml").federation.start
    del federation.apps[13]
    start_or_resume(federation, federation.greeted(), tmp_path / "some.toml", out, None, watch, "")
    expected = lost([{0, 1, 2, 3}] * 3 + [{0, 1, 2}]).trace.x
    np.testing.assert_array_equal(load_file(out / "model.safetensors")["x"], expected)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "keys"
    made.mkdir()
    keys.write_all(made, ["localhost"], range(CLIENTS))
    return made


def public(path) -> bytes:
    return public_key_to_bytes(keys.read_node_key(path)[1])


def registered(experiment, folder, **options) -> InProcess:
    own = {i: public(folder / f"node-{i}") for i in range(CLIENTS)}
    return InProcess(experiment, registry=RegistryFile(folder, CLIENTS), keys=own, **options)


@pytest.mark.longer
def test_a_revoked_client_has_left_before_the_next_exchange(folder, monkeypatch, told):
    one_round_a_chunk(monkeypatch)
    federation = registered(SKIPPING, folder)
    session = federation.session()
    for _ in session.play():
        if session.round == 3:
            membership.revoke(folder, "2")
    asked = [2 in who for kind, who in federation.asked if kind == "ask"]
    assert asked == [True] * 3 + [False] * 5 and "client 2: left, the key of this node was revoked" in told.text
    assert federation.greeted()[2].node is None


@pytest.mark.parametrize("experiment", [EXPERIMENT, REPEATING])
def test_a_run_that_needs_a_revoked_client_ends_in_a_sentence(folder, monkeypatch, experiment):
    one_round_a_chunk(monkeypatch)
    session = registered(experiment, folder).session()
    with pytest.raises(UserError, match="client 2: revoked, but its reply is needed: set .* to 'skip'"):
        for _ in session.play():
            if session.round == 3:
                membership.revoke(folder, "2")
    with pytest.raises(UserError, match="client 2: revoked, but the run needs all clients"):
        registered(experiment, folder).greeted()


@pytest.mark.longer
def test_a_client_with_a_new_key_joins_again(folder, tmp_path, monkeypatch, told):
    one_round_a_chunk(monkeypatch)
    federation = registered(REPEATING, folder)
    session = federation.session()
    for _ in session.play():
        if session.round == 3:
            write_request(tmp_path / "new.csr")
            membership.register(folder, tmp_path / "new.csr", "2")
            federation.apps[30] = federation.apps.pop(12)
            federation.keys[20] = public(tmp_path / "new.key")
            federation.misdeeds[20] = lambda kind, k, reply: reply
    assert "client 2: left, since it has another key" in told.text and "client 2: joined" in told.text
    np.testing.assert_array_equal(session.trace.x, InProcess(EXPERIMENT).session().run().trace.x)


def test_the_node_of_a_revoked_client_is_none(told):
    members = tuple(Member(f"client {i}", b"key %d" % i, revoked=i == 2) for i in range(CLIENTS))
    federation = InProcess(SKIPPING, registry=Registry(members))
    assert [federation.greeted()[i].node for i in range(CLIENTS)] == [10, 11, None, 13]
    assert "refused: the key of this node was revoked" in federation.counts


@pytest.mark.parametrize(("known", "compared"), [("", True), ("theirs", True), (None, False)])
def test_a_node_with_other_classes_or_features_is_refused(known, compared):
    """It is compared with the server, or the first node; not where members may lie, so that no first one keeps others out."""
    federation = InProcess(SKIPPING)
    federation.expected = replace(federation.expected, schema=known)
    for number, node in enumerate(federation.members):
        node.schema = "another" if number == 3 else "theirs"
    nodes = federation.greeted()
    assert [nodes[i].node is None for i in range(CLIENTS)] == [compared and i == 3 for i in range(CLIENTS)]
    reasons = {reason for reason in +federation.counts if "has other classes or features than" in reason}
    assert len(reasons) == compared
