"""Faulty and foreign nodes of a real federation: their replies are counted or refused, and have no effect."""

import json
import os
import re
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.app import Message
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from tests.helpers.commands import wait_for
from turnout.engines.flower import keys
from turnout.engines.flower.client_app import Handshake
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import Hello, handshake, parse_hello
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.payload import pack, unpack
from turnout.engines.flower.registry import Member, Registry
from turnout.engines.flower.server_connection import flower_run
from turnout.engines.flower.transfers import Transfers
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.federation.handshake import handshake_of
from turnout.federation.local import Federation

CLIENTS, ROGUE, STRANGER = 3, 2, 3
HELPERS = Path(__file__).parents[2] / "helpers"
REFUSED = {
    "nan": "not finite",
    "infinite": "not finite",
    "shape": "of another shape or type",
    "type": "of another shape or type",
    "structure": "of another shape or type",
    "counts": "without its counts",
    "length": "malformed",
    "bytes": "malformed",
    "empty": "malformed",
    "nothing": "malformed",
    "error": "error 0: it will not",
    "garbled": "error 4: it is no message of Flower's",
    "repeated": "error 4: it is longer than what was asked for",
}
MISSING = ("missing", "late", "stalled")
PLAN = [step for misdeed in (*REFUSED, *MISSING) for step in (misdeed, "honest")] + ["twice", "honest"]
CALM, HASTY = 60.0, 5.0
"""Seconds for an exchange, and for one that is waited for in vain."""

TOML = f"""
[problem]
kind = "logistic"
data = "breast_cancer"
normalize = "columns"
[split]
kind = "iid"
clients = {CLIENTS}
[sampler]
kind = "full"
[run]
rounds = {len(REFUSED) + len(MISSING) + 2}
[faults]
missing = "repeat"
[algorithm]
kind = "scaffold"
steps = 2
lr = """


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A federation with two honest nodes and a key for a third and a fourth."""
    folder = tmp_path_factory.mktemp("federation")
    (folder / "file.toml").write_text(TOML + "0.1")
    federation = Federation(folder / "federation", folder / "file.toml", CLIENTS + 1, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2] / "helpers"), os.environ.get("PYTHONPATH", "")])
        )
        try:
            federation.start_superlink()
            for client in range(CLIENTS - 1):
                federation.start_node(client)
            yield federation
        finally:
            federation.stop()


def start_rogue(place, misdeeds: str) -> str:
    server, states = place.server, place.folder / f"states-{ROGUE}"
    where = (server.address, server.authority, place.key(ROGUE), states, place.folder / "known.json")
    return place.run("rogue", "rogue", place.file, ROGUE, *where, misdeeds)


class Watchful(Mailbox):
    """Waits long for all but the exchanges in which nobody will answer."""

    asked = 0

    def send(self, letters, kind, *rest):
        self.asked += kind != "hello"
        number = self.asked - 1 - 2 * len(REFUSED)
        self.deadline = HASTY if kind != "hello" and 0 <= number < 2 * len(MISSING) and number % 2 == 0 else CALM
        return super().send(letters, kind, *rest)


@pytest.mark.slow
def test_a_wrong_reply_is_counted_and_never_reaches_the_aggregate(place):
    """A node with another configuration and a registered key says that it is client 0 at the same time."""
    other = place.folder / "other.toml"
    other.write_text(TOML + "0.2")
    server = place.server
    rest = ("--superlink", server.address, "--authority", server.authority, "--key", place.key(STRANGER))
    place.run("stranger", "turnout", "node", other, "--client", 0, *rest, "--states", place.folder / "states-stranger")
    with flower_run(server) as grid:
        wait_for(lambda: len(set(grid.get_node_ids())) == CLIENTS)
        start_rogue(place, ",".join(PLAN))
        experiment = read(place.file)
        built, mailbox = build(experiment, None), Watchful(grid, CALM)
        nodes = handshake(mailbox, handshake_of(experiment, built), CLIENTS, timeout=120.0)
        (greeting,) = +mailbox.counts
        assert greeting.startswith("refused: client 0 does not agree on configuration") and mailbox.counts.pop(greeting) == 1
        real = session_of(experiment, built, engine=partial(Flower, mailbox, nodes, False)).run().trace
    place.stop(["rogue", "stranger"])
    expected = session_of(replace(experiment, faults=None), built).run().trace
    for column in {*expected.columns} - {"counts"}:
        np.testing.assert_allclose(real.columns[column], expected.columns[column], rtol=1e-10, err_msg=column)
    np.testing.assert_allclose(real.x, expected.x, rtol=1e-10)
    reasons = [*REFUSED.values(), *("late or missing" for _ in MISSING)]
    assert +mailbox.counts == {reason: reasons.count(reason) for reason in reasons}
    totals, once = real.ledger.totals(), expected.ledger.totals()
    assert totals["arrivals"] == once["arrivals"] == once["contacts"] == totals["contacts"] - len(reasons)
    # The second of two replies is a duplicate, or one to a message that the server has confirmed, if it comes after that.
    assert re.search("duplicate reply|Message with ID .* does not exist", (place.folder / "superlink.log").read_text())


@pytest.mark.longer
def test_a_request_for_another_configuration_is_not_answered(place):
    """Such as one to a node that was restarted with another configuration after the handshake."""
    experiment = read(place.file)
    expected = handshake_of(experiment, build(experiment, None))
    with flower_run(place.server) as grid:
        mailbox = Mailbox(grid, CALM)
        wait_for(lambda: len(set(grid.get_node_ids())) >= CLIENTS - 1)
        for kind in (f"ask_{replace(expected, configuration='another').digest}", "ask"):
            asked = dict.fromkeys(grid.get_node_ids(), (b"", b""))
            assert mailbox.send(asked, kind, 1000, lambda reply: None) == {}
    assert sum(mailbox.counts.values()) == 2 * len(asked) and all(reason.startswith("error 2") for reason in +mailbox.counts)


@pytest.mark.slow
def test_no_node_answers_for_another_node_or_in_another_run(place):
    """A node that was not asked replies to a message to another one, while that one is stopped."""
    start_rogue(place, "usurp")
    honest = place.children["node-0"]
    with flower_run(place.server) as grid:
        nodes = handshake(
            Mailbox(grid, CALM), handshake_of(read(place.file), build(read(place.file), None)), CLIENTS, timeout=120.0
        )
        honest.send_signal(signal.SIGSTOP)
        (mine,) = grid.push_messages([Message(pack(b""), nodes[0].node, "query.hello")])
        (place.folder / "known.json").write_text(json.dumps([[mine, grid.run.run_id]]))
        with flower_run(place.server) as other:
            (its,) = other.push_messages([Message(pack(b""), nodes[ROGUE].node, "query.hello")])
            assert json.loads(reply_to(other, its))["client"] == ROGUE
        honest.send_signal(signal.SIGCONT)
        assert json.loads(reply_to(grid, mine))["client"] == 0
    place.stop(["rogue"])
    assert "`metadata.run_id` is invalid" in (place.folder / "superlink.log").read_text()


@pytest.mark.slow
def test_a_node_is_the_client_of_its_key(place):
    """A node with a registered key and the right configuration says that it is client 0, which is there; client 2 is absent."""
    rest = ("--superlink", place.server.address, "--authority", place.server.authority, "--key", place.key(STRANGER))
    place.run("liar", "turnout", "node", place.file, "--client", 0, *rest, "--states", place.folder / "states-liar")
    public = [public_key_to_bytes(keys.read_node_key(place.key(i))[1]) for i in range(CLIENTS)]
    registry = Registry(tuple(Member(f"hospital {i}", key) for i, key in enumerate(public)))
    with flower_run(place.server) as grid:
        wait_for(lambda: len(set(grid.get_node_ids())) == CLIENTS)
        mailbox, experiment = Mailbox(grid, CALM), read(place.file)
        expected = handshake_of(experiment, build(experiment, None))
        nodes = handshake(mailbox, expected, CLIENTS, HASTY, registry, some_suffice=True)
        ids = {node.public_key: node.node_id for node in grid.get_nodes()}
    place.stop(["liar"])
    assert [nodes[i].node for i in range(CLIENTS)] == [ids[public[0]], ids[public[1]], None]
    (reason,) = +mailbox.counts
    assert reason.startswith("refused: a node says that it is client 0, but its key is not in the registry")


def reply_to(grid, number: str) -> bytes:
    """Wait for the reply to a message, and return its body."""
    arrived, transfers = [], Transfers(grid, 1000)
    wait_for(lambda: transfers.look({number}))
    wait_for(lambda: arrived.extend(reply for _, reply in filter(None, transfers.advance())) or arrived)
    transfers.close()
    return unpack(arrived[0].content)[1][:]


EXPECTED = Handshake("1", "double", "digest", "shapes")


def hello(client, rows) -> bytes:
    return json.dumps({"client": client, "rows": rows, **vars(EXPECTED)}).encode()


MALFORMED = [b"", b"\xff", b"[]", b"3", b"null", b"{}", b'{"client": 0}']
UNKNOWN_CLIENTS = [hello(client, 1) for client in ("0", 0.0, True, None, -1, CLIENTS, [0])]
WITHOUT_ROWS = [hello(0, rows) for rows in ("1", 1.0, True, None, 0, -1)]


@pytest.mark.longer
@pytest.mark.parametrize("body", [*MALFORMED, *UNKNOWN_CLIENTS, *WITHOUT_ROWS])
def test_a_malformed_hello_is_refused(body):
    assert parse_hello(body, EXPECTED, CLIENTS).refusal is not None


@pytest.mark.longer
def test_a_valid_hello_is_accepted():
    for client in range(CLIENTS):
        assert parse_hello(hello(client, 7), EXPECTED, CLIENTS) == Hello(client, 7, None)


@pytest.mark.slow
def test_a_nodes_configuration_has_to_be_the_servers():
    fields = {"client": 1, "rows": 7, **vars(replace(EXPECTED, configuration="another"))}
    client, _, reason, *_ = parse_hello(json.dumps(fields).encode(), EXPECTED, CLIENTS)
    assert client == 1 and "does not agree on configuration" in reason
