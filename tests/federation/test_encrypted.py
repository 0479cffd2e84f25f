"""Nodes with the members' key for encrypted sums: what they need, what they answer, what a site can ask for."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")
pytest.importorskip("tenseal", reason="TenSEAL is not installed: pip install 'turnout[encrypted]'")

from tests.helpers.commands import turnout, whole
from tests.helpers.insider import CLIENTS, LOCAL, SECRET, TOML, Insider, Refusal
from turnout.core.errors import UserError
from turnout.engines.encryption import FRACTION, SumKey, add, write_key
from turnout.io.audit import read_entries
from turnout.io.serialization import decode, encode

ENCRYPTED = TOML.replace("rounds = 30", 'rounds = 30\naggregation = "encrypted"')
POLICY = 'algorithms = ["fedavg"]\nrounds = 50\nmethods = ["train"]\nencrypted = true\n'


@pytest.fixture
def key(tmp_path):
    write_key(tmp_path / "sum.key")
    return tmp_path / "sum.key"


@pytest.fixture(scope="module")
def member(tmp_path_factory):
    """A node with the members' key."""
    folder = tmp_path_factory.mktemp("member")
    write_key(folder / "sum.key")
    return Insider(folder, ENCRYPTED, sum_key=folder / "sum.key")


def decrypted(insider, total, replies: int, numbers: int = 3) -> np.ndarray:
    """What the node answers to a request to decrypt."""
    header = json.dumps({"replies": replies, "numbers": numbers}).encode()
    return decode(insider.send(f"decrypt_{insider.handshake.digest}", header, encode(total, None)), None)[0]


def check_node(insider, key) -> None:
    """It encrypts its reply whatever the header says, and decrypts a sum of two, and neither the reply nor anything else."""
    sent = [insider.ask(np.zeros(3), made=(k, 0), **weight) for k, weight in ((1, {}), (2, {"weight": 1.0}))]
    assert all(SECRET.tobytes() not in reply.tobytes() for reply in sent)
    np.testing.assert_array_equal(decrypted(insider, add(sent), 2), 2 * SECRET * 2**FRACTION)
    for total, replies in ((sent[0], 1), (sent[0], 2), (add(sent), 3), (np.zeros(3), 2), (np.zeros((1, 98304), "uint8"), 2)):
        with pytest.raises(Refusal, match="this is no"):
            decrypted(insider, total, replies)
    with pytest.raises(Refusal, match="header of the request is not valid"):
        decrypted(insider, add(sent), 2, -1)
    entries = read_entries(next(insider.states.glob("audit-*.jsonl")))
    assert [entry["answer"] for entry in entries if entry["asked"] == "decrypt"] == ["reply", *["refused"] * 6]
    assert insider.hello()["sum_key"] == SumKey.read(key, 2).id


def test_a_node_encrypts_its_replies_and_decrypts_sums(tmp_path, key):
    check_node(Insider(tmp_path, ENCRYPTED, sum_key=key), key)


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)


@pytest.mark.longer
@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["replies", "numbers", "attempt", "other"]), VALUES), st.binary(max_size=60))
def test_requests_of_any_form_are_refused(member, fields, body):
    for content in (body, encode(np.zeros((1, 98304), "uint8"), None)):
        with pytest.raises(Refusal) as refusal:
            member.send(f"decrypt_{member.handshake.digest}", json.dumps(fields).encode(), content)
        assert "client error" not in str(refusal.value)


def test_a_site_can_ask_for_encryption(tmp_path, key):
    (tmp_path / "policy.toml").write_text(POLICY)
    with pytest.raises(UserError, match="only \\[run\\] aggregation = 'encrypted' is allowed here"):
        Insider(tmp_path, TOML, policy=tmp_path / "policy.toml")
    insider = Insider(tmp_path, ENCRYPTED, policy=tmp_path / "policy.toml", sum_key=key)
    check_node(insider, key)
    insider.configure(TOML)
    assert "only [run] aggregation = 'encrypted' is allowed here" in insider.hello()["refusal"]
    insider.configure(ENCRYPTED.replace("rounds = 30", "rounds = 40"))
    assert "refusal" not in insider.hello()
    insider.ask(np.zeros(3))


def test_a_node_needs_the_key(tmp_path):
    with pytest.raises(UserError, match="needs the members' key: give turnout node --sum-key FILE"):
        Insider(tmp_path, ENCRYPTED)


def test_a_node_of_other_sums_decrypts_nothing(tmp_path, key):
    insider, own = Insider(tmp_path, TOML, sum_key=key), SumKey.read(key, 2)
    with pytest.raises(Refusal, match="this node has no key for sums"):
        decrypted(insider, add([own.encrypt(SECRET)] * 2), 2)


@pytest.mark.longer
def test_local_noise_is_added_before_encryption(tmp_path, key):
    """The reply has noise of deviation 400: the error of the sum of two is above 1 with a chance of more than 1 - 1e-8."""
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'turnout[privacy]'")
    insider = Insider(tmp_path, ENCRYPTED + LOCAL, sum_key=key)
    sent = [insider.ask(np.zeros(3), made=(k, 0)) for k in (1, 2)]
    assert np.linalg.norm(decrypted(insider, add(sent), 2) / 2**FRACTION - 2 * SECRET) > 1


def test_the_members_make_their_key(tmp_path):
    code, out, errors = turnout("sum-key", tmp_path / "sum.key")
    assert (code, errors) == (0, "") and "for all members" in out and SumKey.read(tmp_path / "sum.key", 2).id
    code, _, errors = turnout("sum-key", tmp_path / "sum.key")
    assert code == 2 and "keys are not overwritten" in errors


@pytest.mark.slow
def test_deploy_makes_the_key_of_the_nodes_and_only_the_owner_reads_what_is_not_public(tmp_path, monkeypatch):
    (tmp_path / "own_clients.py").write_text(CLIENTS)
    (tmp_path / "file.toml").write_text(ENCRYPTED.replace("rounds = 30", "rounds = 2"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    code, _, errors = whole("deploy", tmp_path / "file.toml", "--out", tmp_path / "out")
    assert code == 0, errors
    written = [path for path in (tmp_path / "out" / "federation").rglob("*") if path.is_file()]
    readable = {path.name for path in written if path.stat().st_mode & 0o077}
    assert readable == {"ca.crt", "server.pem", "clients.toml", "node-0.pub", "node-1.pub"}
    assert {"sum.key", "secret", "superlink.db", "audit-0.jsonl", "node-0.log"} < {path.name for path in written}
    assert (tmp_path / "out" / "status.json").stat().st_mode & 0o777 == 0o600
