"""A federation whose server gets ciphertexts, and a sum that one member decrypts: members that fail, lie or have another key."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")
pytest.importorskip("tenseal", reason="TenSEAL is not installed: pip install 'turnout[encrypted]'")

from tests.helpers.in_process import InProcess
from turnout.core.errors import UserError
from turnout.engines.encryption import BYTES, SumKey, new_key
from turnout.engines.faults import Faults
from turnout.engines.flower import clients
from turnout.experiment.config import Reader
from turnout.io.serialization import decode, encode

CLIENTS, ROUNDS = 5, 4
TOML = {
    "problem": {"kind": "log-sum", "clients": CLIENTS, "dimension": 4, "parts": 1},
    "sampler": {"kind": "nice", "size": 4},
    "run": {"rounds": ROUNDS, "metrics": ["value"], "aggregation": "encrypted"},
    "algorithm": {"kind": "scaffold", "steps": 2, "lr": 0.001},
}
EXPERIMENT = Reader("file.toml", "", TOML).experiment("file")
REPEATING, SKIPPING = (replace(EXPERIMENT, faults=Faults(missing=missing)) for missing in ("repeat", "skip"))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(clients, "FIRST_PAUSE", 0.0)


def summed(experiment):
    return replace(experiment, run=replace(experiment.run, aggregation="sum"))


def decryptions(federation) -> list[int]:
    """The clients that were asked to decrypt, in order."""
    return [who for kind, asked in federation.asked if kind == "decrypt" for who in asked]


@pytest.mark.tiers(quick=[], slow=["repeat"])
@pytest.mark.parametrize("experiment", [EXPERIMENT, SKIPPING, REPEATING], ids=["raise", "skip", "repeat"])
def test_the_run_is_that_of_sums_and_members_take_turns(experiment):
    federation = InProcess(experiment)
    encrypted = federation.session().run().trace
    plain = InProcess(summed(experiment)).session().run().trace
    np.testing.assert_allclose(encrypted.x, plain.x, atol=1e-11, rtol=0)
    assert len(decryptions(federation)) == ROUNDS and len({*decryptions(federation)}) > 1
    totals, expected = encrypted.ledger.totals(), plain.ledger.totals()
    assert totals["exchanges"] == expected["exchanges"] and totals["arrivals"] == expected["arrivals"] + ROUNDS


def lost(*kinds: str):
    """Never answer requests of these kinds."""
    return lambda kind, k, reply: None if kind in kinds else reply


@pytest.mark.slow
def test_a_client_whose_reply_is_lost_is_not_in_the_sum():
    encrypted, plain = (InProcess(each, {1: lost("ask")}).session().run().trace for each in (SKIPPING, summed(SKIPPING)))
    np.testing.assert_allclose(encrypted.x, plain.x, atol=1e-11, rtol=0)
    assert encrypted.ledger.totals()["aggregated"] == plain.ledger.totals()["aggregated"] < 4 * ROUNDS


@pytest.mark.tiers(quick=[], longer=["skip"])
@pytest.mark.parametrize("experiment", [SKIPPING, REPEATING], ids=["skip", "repeat"])
def test_another_member_decrypts_where_one_does_not_answer(experiment):
    federation = InProcess(experiment, {i: lost("decrypt") for i in range(CLIENTS - 2)})
    trace = federation.session().run().trace
    np.testing.assert_allclose(trace.x, InProcess(summed(experiment)).session().run().trace.x, atol=1e-11, rtol=0)
    (row,) = (row for row in trace.ledger.rows() if row["method"] == "decrypt")
    assert row["contacts"] == len(decryptions(federation)) > ROUNDS == row["arrivals"]
    assert row["bytes_down"] == BYTES and row["bytes_up"] == 2 * 4 * 8


@pytest.mark.longer
def test_a_run_ends_with_a_sentence_if_nobody_decrypts():
    federation = InProcess(REPEATING, dict.fromkeys(range(CLIENTS), lost("decrypt")))
    with pytest.raises(UserError, match="none of the 4 clients that answered in round 1 decrypted the sum"):
        federation.session().run()


def garbled(kind, k, reply):
    """Send something of the right shape that is no ciphertext."""
    if kind != "ask":
        return reply
    tree, header = decode(reply, None)
    return encode(np.zeros_like(tree), None, header)


@pytest.mark.longer
def test_what_is_no_ciphertext_is_a_wrong_reply():
    federation = InProcess(SKIPPING, {0: garbled})
    trace = federation.session().run().trace
    assert federation.counts["not encrypted"] == 4 * ROUNDS - trace.ledger.totals()["aggregated"] > 0


def test_a_member_with_another_key_is_refused():
    federation = InProcess(SKIPPING)
    federation.members[3].sum_key = SumKey(new_key(), CLIENTS)
    nodes = federation.greeted()
    assert [nodes[i].node for i in range(CLIENTS)] == [10, 11, 12, None, 14]
    (reason,) = +federation.counts
    assert reason == "refused: client 3 has another key for sums than client 0: give all members the same file for --sum-key"


def test_a_member_cannot_name_a_key_where_none_is_needed():
    """The others would be refused for having none."""
    federation = InProcess(summed(SKIPPING), {0: lambda kind, k, reply: _with_key(reply) if kind == "hello" else reply})
    assert len(federation.greeted().nodes) == CLIENTS


def _with_key(reply: bytes) -> bytes:
    return json.dumps(json.loads(reply) | {"sum_key": "mine"}).encode()


class Overheard(InProcess):
    """Keeps all that the server sends and receives."""

    def __init__(self, experiment):
        self.received, self.sent = [], []
        super().__init__(experiment, dict.fromkeys(range(CLIENTS), self._hear))

    def _hear(self, kind, k, reply):
        self.received.append((kind, reply))
        return reply

    def _replies(self, requests, kind, limit):
        self.sent += [part for request in requests.values() for part in request]
        yield from super()._replies(requests, kind, limit)

    def everything(self) -> bytes:
        return b"".join([*(reply for _, reply in self.received), *self.sent])

    def replies(self) -> list:
        return [decode(reply, None)[0] for kind, reply in self.received if kind == "ask"]


@pytest.mark.longer
def test_single_replies_are_in_the_messages_of_sums_and_not_in_those_of_encrypted_sums():
    open_, secret = Overheard(summed(EXPERIMENT)), Overheard(EXPERIMENT)
    for federation in (open_, secret):
        federation.session().run()
    numbers = [leaf.tobytes() for leaf in jax.tree.leaves(open_.replies())]
    assert len(numbers) == 2 * 4 * ROUNDS and all(each in open_.everything() for each in numbers)
    assert not any(each in secret.everything() for each in numbers)
    assert not any(each[:8] in secret.everything() for each in numbers)
    key, heard = secret.secret, secret.everything()
    assert not any(key[begin : begin + 16] in heard for begin in range(200, len(key) - 15, 16))
