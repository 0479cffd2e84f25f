"""Federations of real processes with hubs: the compiled run, also where a hub is killed."""

import json
from functools import partial

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.commands import whole
from tests.helpers.gaussian_privacy import gaussian_epsilon
from turnout.accounting.ledger import SERVER
from turnout.engines.encryption import write_key
from turnout.engines.flower.hub_engine import HubFlower
from turnout.engines.flower.server_connection import flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.federation.deployed import federation_of
from turnout.federation.local import SUM_KEY
from turnout.federation.local_hubs import HubFederation
from turnout.federation.server import connect_clients
from turnout.io.audit import read_entries
from turnout.io.models import load_model

pytestmark = pytest.mark.slow

TOML = """
[problem]
kind = "log-sum"
clients = {clients}
dimension = 30
parts = 1
[sampler]
kind = "nice"
size = {size}
{algorithm}
[run]
rounds = 6
metrics = ["value"]
[hubs]
{hubs}
[faults]
missing = "repeat"
"""


INSIDE = {
    "fedavg": 'kind = "fedavg"\nsteps = 2\nlr = 0.001',
    "sppm": 'kind = "sppm"\ngamma = 0.001\ninner = 3\nsolver = { kind = "bfgs", convexity = 0.0 }',
    "scaffold": 'kind = "scaffold"\nsteps = 2\nlr = 0.001',
}
SCAFFOLD = f"[algorithm]\n{INSIDE['scaffold']}"


def in_hubs(inside: str, more: str = "") -> str:
    return f'[algorithm]\nkind = "in-hubs"\nrounds = 3\n{more}[algorithm.algorithm]\n{INSIDE[inside]}'


@pytest.mark.tiers(quick=[], slow=["forwarding", "fedavg"])
@pytest.mark.parametrize("name", ["forwarding", "fedavg", "sppm"])
def test_four_hubs_of_five_nodes_play_the_compiled_run(name, tmp_path):
    """As `turnout deploy` starts them, on this machine; the counts of all links are those of the compiled run."""
    file, out = tmp_path / "file.toml", tmp_path / "out"
    algorithm, size = (SCAFFOLD, 8) if name == "forwarding" else (in_hubs(name), 3)
    file.write_text(TOML.format(clients=20, size=size, hubs="count = 4", algorithm=algorithm))
    code, _, errors = whole("deploy", file, "--out", out)
    assert code == 0, errors
    experiment = read(file)
    expected = session_of(experiment, build(experiment, None)).run().trace
    found = load_model(out / "model.safetensors", expected.x)
    np.testing.assert_allclose(found, expected.x, rtol=1e-10)
    totals, ledger = expected.ledger.totals(), json.loads((out / "summary.json").read_text())["ledger"]["totals"]
    counted = {*ledger} - {"microseconds", "seconds"}
    assert {name: totals[name] for name in counted} == {name: ledger[name] for name in counted} and {*SERVER} < counted
    assert totals["server_contacts"] < totals["contacts"]
    readable = [path.name for path in out.glob("federation/**/*") if path.is_file() and path.stat().st_mode & 0o077]
    assert all(name in ("ca.crt", "server.pem", "clients.toml") or name.endswith(".pub") for name in readable)


SERVED = f"[algorithm]\n{INSIDE['sppm']}"
"""By the hub of each cohort, with the sampler of blocks."""


def counted(trace) -> list[dict]:
    """What the links count, but for how long they took."""
    return [{name: count for name, count in link.items() if name != "seconds"} for link in trace.ledger.links()]


TWO, LEVELS = "of = [0, 1, 0, 1, 0, 1]", 'of = [["a", 0], ["a", 1], ["a", 0], ["a", 1], ["a", 0], ["a", 1]]'


KILLED = {"scaffold": "hub-1", "served": "hub-1", "levels": "hub-0.1", "played below": "hub-0"}


@pytest.mark.tiers(quick=[], slow=["served", "levels", "played below"])
@pytest.mark.parametrize("name", KILLED)
def test_a_hub_that_is_killed_starts_again_and_nothing_is_lost(name, tmp_path, monkeypatch):
    """With its SuperLink, after which its nodes connect to the new one; every other client is one of its nodes."""
    monkeypatch.setattr("turnout.runs.session.CHUNK_SECONDS", 0.0)
    levels = name in ("levels", "played below")
    hubs = LEVELS if levels else TWO
    algorithm = {"served": SERVED, "played below": in_hubs("scaffold")}.get(name, SCAFFOLD)
    text = TOML.format(clients=6, size=4, hubs=hubs, algorithm=algorithm)
    (tmp_path / "file.toml").write_text(text.replace('kind = "nice"\nsize = 4', 'kind = "block"') if name == "served" else text)
    place, experiment = federation_of(tmp_path / "federation", tmp_path / "file.toml", None), read(tmp_path / "file.toml")
    try:
        place.start()
        with place.supervised(), flower_run(place.server) as grid:
            mailbox, nodes = connect_clients(grid, experiment, None, 15.0, keys=place.folder)
            session = session_of(experiment, build(experiment, None), engine=partial(HubFlower, mailbox, nodes, False))
            for _ in session.play():
                if session.round == 2:
                    killed = place.children[KILLED[name]]
                    killed.kill()
    finally:
        place.stop()
    assert killed.wait() == -9
    expected = session_of(experiment, build(experiment, None)).run().trace
    np.testing.assert_allclose(session.trace.x, expected.x, rtol=1e-10)
    assert counted(session.trace) == counted(expected)
    served = any(row["exchanges"] for row in expected.ledger.rows() if row["path"].endswith(".served1"))
    # What a hub above it misses, it asks for again by itself.
    assert served == (name == "served") and (name != "scaffold" or mailbox.counts["late or missing"] > 0)
    assert len(counted(session.trace)) == (2 if levels else 1)
    assert session.trace.ledger.totals()["arrivals"] == expected.ledger.totals()["arrivals"]


class Guarded(HubFederation):
    """Every node has the policy of its site."""

    def _start_node(self, name, *options, server=None):
        return super()._start_node(name, *options, "--policy", self.folder.parent / "policy.toml", server=server)


PRIVATE = """
[privacy]
model = "local"
clip = 0.01
noise_multiplier = 1.0
delta = 1e-5
seed = 3
"""
POLICY = 'algorithms = ["scaffold"]\nrounds = 50\nmethods = ["train"]\nencrypted = true\n'


def test_security_holds_at_each_hop(tmp_path):
    """Noise of the clients, encrypted sums, the policy of each node and the logs of nodes and hubs, in one federation."""
    pytest.importorskip("tenseal", reason="TenSEAL is not installed: pip install 'turnout[encrypted]'")
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'turnout[privacy]'")
    file, folder = tmp_path / "file.toml", tmp_path / "federation"
    text = TOML.format(clients=6, size=4, hubs="count = 2", algorithm=SCAFFOLD) + PRIVATE
    file.write_text(text.replace("[run]", '[run]\nengine = "nodes"\naggregation = "encrypted"'))
    (tmp_path / "policy.toml").write_text(POLICY)
    experiment = read(file)
    place = Guarded(folder, file, [(0,)] * 3 + [(1,)] * 3, None)
    write_key(folder / SUM_KEY)
    try:
        place.start()
        with place.supervised(), flower_run(place.server) as grid:
            mailbox, nodes = connect_clients(grid, experiment, None, 60.0, keys=folder)
            session = session_of(experiment, build(experiment, None), engine=partial(HubFlower, mailbox, nodes, False)).run()
    finally:
        place.stop()
    expected = session_of(experiment, build(experiment, None)).run().trace
    np.testing.assert_allclose(session.trace.x, expected.x, atol=1e-10, rtol=0)
    assert session.trace.ledger.links() == expected.ledger.links()
    logs = {path.name: read_entries(path) for path in folder.rglob("audit-*.jsonl")}
    assert {*logs} == {f"audit-{name}.jsonl" for name in (*range(6), "hub-0", "hub-1")}
    asked = {name: [entry["asked"] for entry in entries if entry["answer"] == "reply"] for name, entries in logs.items()}
    replies = sum(asked[f"audit-{client}.jsonl"].count("ask") for client in range(6))
    decrypted = sum(asked[f"audit-{client}.jsonl"].count("decrypt") for client in range(6))
    assert (replies, decrypted) == (6 * 4, 6) and asked["audit-hub-0.jsonl"].count("sum") == 6
    for client in range(6):
        entries = logs[f"audit-{client}.jsonl"]
        releases = [entry["asked"] for entry in entries].count("ask")
        if releases:
            assert entries[-1]["epsilon"] == pytest.approx(gaussian_epsilon(1.0 / 2 / releases**0.5, 1e-5))
