"""Real federations: a SuperLink and six node processes give the compiled engine's numbers, and other nodes are refused."""

import json
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.proto.runtime_pb2 import PushTaskOutputRequest

from tests.helpers.clockless import clockless
from tests.helpers.commands import turnout
from turnout.accounting.counters import to_ledger
from turnout.core.errors import UserError
from turnout.engines import encryption
from turnout.engines.flower import keys, server_connection
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import handshake
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.server_connection import SECRET_HEADER, flower_run, heartbeat_of
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.federation.handshake import handshake_of
from turnout.federation.local import SUM_KEY, Federation, environment
from turnout.io.audit import read_entries

CLIENTS = 6
PROBLEM = f"""
[problem]
kind = "logistic"
data = {{ kind = "parquet", path = "DATA" }}
mu = 0.1
[split]
kind = "dirichlet"
clients = {CLIENTS}
concentration = 1.0
[sampler]
kind = "nice"
size = 3
[run]
rounds = 6
[algorithm]
"""
ALGORITHMS = {
    "fedavg": 'kind = "fedavg"\nlr = 0.1\nsteps = 3',
    "sppm-as": 'kind = "sppm"\ngamma = 10.0\ninner = 3\nsolver = { kind = "lbfgs" }',
    "scaffold": 'kind = "scaffold"\nlr = 0.05\nsteps = 3\noption = "II"',
    "feddcd": 'kind = "feddcd"\nsolver = { kind = "gradient", steps = 20, tolerance = 0.0 }',
}


def configuration(folder: Path, algorithm: str, more: str = "", change: tuple[str, str] = ("", "")) -> Path:
    """Write a configuration and its data; nodes read the file faster than they import scikit-learn."""
    file, rows = folder / f"{algorithm}.toml", folder / "breast_cancer.parquet"
    if not rows.exists():
        features, label = load_breast_cancer(return_X_y=True)
        pl.DataFrame({"features": features, "label": label}).write_parquet(rows)
    file.write_text(f"{PROBLEM.replace('DATA', str(rows)).replace(*change)}{ALGORITHMS[algorithm]}\n{more}")
    return file


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A federation with a running SuperLink and no nodes yet."""
    folder = tmp_path_factory.mktemp("federation")
    federation = Federation(folder / "federation", folder / "none.toml", CLIENTS, None)
    try:
        federation.start_registered_superlink()
        yield federation
    finally:
        federation.stop()


@pytest.fixture(scope="module", autouse=True)
def stranger(place, tmp_path_factory):
    """A node whose key is not registered, which tries to connect during the first runs."""
    folder = tmp_path_factory.mktemp("stranger")
    keys.write_node_key(folder / "key")
    file = configuration(folder, "fedavg")
    theirs = ("--superlink", place.server.address, "--authority", place.server.authority)
    command = ["node", file, "--client", 0, *theirs, "--key", folder / "key", "--states", folder / "states"]
    words, log = [sys.executable, "-m", "turnout", *map(str, command)], folder / "log"
    with log.open("w") as out, subprocess.Popen(words, stdout=out, stderr=out, env=environment(folder)) as process:
        yield process, log
        process.kill()


@contextmanager
def nodes(federation, name: str, more: str = "", run: str = ""):
    """Run the nodes for the algorithm `name`."""
    federation.file = configuration(federation.folder, name, more, ("rounds = 6", f"rounds = 6\n{run}"))
    started = [federation.start_node(i) for i in range(CLIENTS)]
    try:
        yield read(federation.file)
    finally:
        federation.stop(started)


COMPRESSED = """
[exchange]
up = { kind = "top-k", fraction = 0.2 }
down = { kind = "rand-k", fraction = 0.5 }
feedback = "ef21"
"""


@pytest.mark.tiers(quick=[], longer=["sppm-as"], slow=["scaffold, compressed"])
@pytest.mark.parametrize(
    ("name", "more"),
    [
        pytest.param("sppm-as", "", id="sppm-as"),
        pytest.param("scaffold", COMPRESSED, id="scaffold, compressed"),
        *(pytest.param(name, "", id=name, marks=pytest.mark.everything) for name in ALGORITHMS if name != "sppm-as"),
    ],
)
def test_nodes_give_the_compiled_run(place, name, more):
    with nodes(place, name, more) as experiment, flower_run(place.server) as grid:
        built = build(experiment, None)
        mailbox = Mailbox(grid, deadline=60.0)
        infos = handshake(mailbox, handshake_of(experiment, built), CLIENTS, timeout=120.0)
        real = clockless(session_of(experiment, built, engine=partial(Flower, mailbox, infos, False)).run().trace)
    expected = session_of(experiment, built).run().trace
    assert not any(mailbox.counts.values())
    for column in expected.columns:
        np.testing.assert_allclose(real.columns[column], expected.columns[column], rtol=1e-10, err_msg=column)
    np.testing.assert_allclose(real.x, expected.x, rtol=1e-10)
    assert real.ledger.totals() == expected.ledger.totals()


@pytest.mark.slow
def test_a_server_that_gets_only_sums_has_the_same_run(place):
    """SPPM-AS, whose replies are weighted by lambda_i / p_i."""
    with nodes(place, "sppm-as", run='aggregation = "sum"') as experiment, flower_run(place.server) as grid:
        built = build(experiment, None)
        mailbox = Mailbox(grid, deadline=60.0)
        infos = handshake(mailbox, handshake_of(experiment, built), CLIENTS, timeout=120.0)
        real = clockless(session_of(experiment, built, engine=partial(Flower, mailbox, infos, False)).run().trace)
    expected = session_of(replace(experiment, run=replace(experiment.run, aggregation="plain")), built).run().trace
    np.testing.assert_allclose(real.x, expected.x, rtol=1e-10)
    assert real.ledger.totals() == expected.ledger.totals()


@pytest.mark.slow
def test_a_server_of_encrypted_sums_has_the_same_run(place):
    """SCAFFOLD, whose clients have states; every node has the members' key, and the server none."""
    pytest.importorskip("tenseal", reason="TenSEAL is not installed: pip install 'turnout[encrypted]'")
    encryption.write_key(place.folder / SUM_KEY)
    with nodes(place, "scaffold", run='aggregation = "encrypted"') as experiment, flower_run(place.server) as grid:
        built = build(experiment, None)
        mailbox = Mailbox(grid, deadline=60.0)
        infos = handshake(mailbox, handshake_of(experiment, built), CLIENTS, timeout=120.0)
        real = clockless(session_of(experiment, built, engine=partial(Flower, mailbox, infos, False)).run().trace)
        answers = [
            entry["asked"] for i in range(CLIENTS) for entry in read_entries(*place.folder.glob(f"states-{i}/audit-*.jsonl"))
        ]
    expected = session_of(replace(experiment, run=replace(experiment.run, aggregation="plain")), built).run().trace
    assert not any(mailbox.counts.values()) and answers.count("decrypt") == 6
    np.testing.assert_allclose(real.x, expected.x, atol=1e-10, rtol=0)
    assert real.ledger.totals()["exchanges"] == expected.ledger.totals()["exchanges"]


@pytest.mark.longer
def test_neither_a_killed_node_nor_a_resumed_server_changes_the_run(place):
    """SCAFFOLD, whose clients have states; the first server continues beyond its checkpoint before it ends."""
    with nodes(place, "scaffold", '[faults]\nmissing = "repeat"\n') as experiment:
        built = build(experiment, None)
        expected, snapshot, alive = handshake_of(experiment, built), None, True
        for resumed in (False, True):
            with place.supervised(), flower_run(place.server) as grid:
                mailbox = Mailbox(grid, deadline=5.0)
                engine = partial(Flower, mailbox, handshake(mailbox, expected, CLIENTS, timeout=120.0), resumed)
                session = session_of(experiment, built, engine=engine)
                if resumed:
                    session.restore(snapshot)
                for _ in session.play():
                    if snapshot is None and session.round >= 2:
                        snapshot = session.snapshot()
                    elif not resumed and session.round >= 3:
                        break
                    if resumed and alive and session.round < 6:
                        alive = place.children["node-0"].kill()
    expected = session_of(replace(experiment, faults=None), built).run().trace
    real = session.trace
    for column in set(expected.columns) - {"counts"}:
        np.testing.assert_allclose(real.columns[column], expected.columns[column], rtol=1e-10, err_msg=column)
    asked, once = real.ledger.totals(), expected.ledger.totals()
    assert asked["arrivals"] == once["arrivals"] and asked["contacts"] >= once["contacts"]


WIDE = 5_000_000
"""Parameters of a large model, 40 MB in double precision."""

DENSE = 300_000
"""Parameters of a model that is sent as an array, not beside the header."""


only_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux reports the peak memory of a process")


@pytest.mark.everything
@only_linux
def test_memory_does_not_grow_with_the_replies(place, tmp_path):
    """One exchange of a large model with one client and with four."""
    rows = (f"{1 - 2 * (k % 2)} {k + 1}:1 {WIDE - k}:0.5" for k in range(8))
    (tmp_path / "wide.txt").write_text("\n".join(rows) + "\n")
    place.file = tmp_path / "wide.toml"
    place.file.write_text(
        f'[problem]\nkind = "logistic"\ndata = "{tmp_path / "wide.txt"}"\nmu = 0.1\n[split]\nkind = "contiguous"\nclients = 4\n'
        '[sampler]\nkind = "nice"\nsize = 4\n[run]\nrounds = 1\nmetrics = ["value"]\n'
        '[algorithm]\nkind = "fedavg"\nlr = 0.1\nsteps = 1\n'
    )
    one, four = totals_of(place, clients=4, sizes=(1, 4))
    # In memory, three more replies would take three models, and stacking them three more.
    assert four["peak"] - one["peak"] < 3 * 8 * WIDE


@pytest.mark.slow
@only_linux
def test_the_ledger_counts_the_bytes_that_are_sent(place, tmp_path):
    """The SuperLink's counts equal the ledger's; the messages have no equal chunks, which would be sent once."""
    place.file = tmp_path / "dense.toml"
    place.file.write_text(
        f'[problem]\nkind = "log-sum"\nclients = 2\ndimension = {DENSE}\nparts = 1\n[sampler]\nkind = "nice"\nsize = 2\n'
        '[run]\nrounds = 2\nmetrics = ["value"]\n[algorithm]\nkind = "fedavg"\nlr = 0.001\nsteps = 1\n'
    )
    (totals,) = totals_of(place, clients=2, sizes=(2,))
    assert totals["bytes_down"] == totals["bytes_up"] == 2 * 2 * 8 * DENSE
    assert (place.folder / "superlink.db").stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(place.folder / "superlink.db")) as database:
        counted = {run % 2**64: ways for run, *ways in database.execute("SELECT run_id, bytes_sent, bytes_recv FROM run")}
    np.testing.assert_allclose(counted[totals["run"]], [totals["bytes_down"], totals["bytes_up"]], rtol=0.02)


def totals_of(place, clients: int, sizes: tuple[int, ...]) -> list[dict]:
    """Run the federation's file with cohorts of these sizes, each with a server process; return the ledger's totals."""
    started = [place.start_node(i) for i in range(clients)]
    try:
        totals = []
        for size in sizes:
            words = [
                sys.executable,
                Path(__file__).parents[2] / "helpers/peak_memory.py",
                place.file,
                place.server.address,
                place.folder,
                size,
            ]
            done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=400)
            assert done.returncode == 0, done.stderr
            totals.append(json.loads(done.stdout.splitlines()[-1]))
        return totals
    finally:
        place.stop(started)


@pytest.mark.longer
def test_only_the_paths_of_nodes_are_open(place):
    """With the authority's certificate alone nobody registers a node, starts a run or takes one over."""
    with httpx.Client(base_url=f"https://{place.server.address}", verify=place.server.ssl_context) as client:
        for path in ("/v1/control/register-node", "/v1/control/start-run", "/v1/runtime/acquire-task", "/docs", "/health"):
            for headers in ({}, {SECRET_HEADER: "wrong"}):
                assert client.post(path, headers=headers).status_code == 403, path
        assert client.get("/health", headers={SECRET_HEADER: place.server.secret}).status_code == 200
        assert client.post("/v1/fleet/pull-messages").status_code != 403
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://{place.server.address}/health")
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"https://{place.server.address}/health")


@pytest.mark.longer
@only_linux
def test_a_strangers_request_takes_no_memory_of_the_superlink(place):
    """400 MB without a key, of unknown length."""

    def peak() -> int:
        status = Path(f"/proc/{place.children['superlink'].pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

    before, body = peak(), (bytes(2**20) for _ in range(400))
    with httpx.Client(base_url=f"https://{place.server.address}", verify=place.server.ssl_context) as client:
        # The connection may be closed while the request is still being sent.
        with suppress(httpx.TransportError):
            headers = {"content-type": "application/protobuf"}
            assert client.post("/v1/fleet/push-object", content=body, headers=headers).status_code == 401
    assert peak() - before < 50_000


@pytest.mark.longer
@only_linux
def test_a_full_disk_of_the_superlink_is_a_sentence(place):
    """And once there is room again, the next run is as any other."""

    def largest_file(size: int) -> None:
        resource.prlimit(place.children["superlink"].pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    with pytest.raises(UserError, match="fails with status 500: look into its log and whether its disk is full"):
        with flower_run(place.server) as grid:
            largest_file(1)
            grid._runtime_client.PushTaskOutput(PushTaskOutputRequest(sub_status="failed", details=""))
    largest_file(resource.RLIM_INFINITY)
    with flower_run(place.server) as grid:
        assert [*grid.get_node_ids()] == []


@pytest.mark.slow
def test_a_node_with_a_key_that_was_not_registered_is_refused(stranger):
    process, log = stranger
    assert process.wait(120) != 0 and "this key is not registered" in log.read_text()


@pytest.mark.longer
def test_a_node_needs_a_client_of_the_configuration(tmp_path):
    file = configuration(tmp_path, "fedavg")
    rest = ("--superlink", "localhost:1", "--authority", file, "--key", file, "--states", tmp_path)
    code, _, wrong = turnout("node", file, "--client", CLIENTS, *rest)
    assert code == 2 and f"has clients 0 to {CLIENTS - 1}, so that no node can be client {CLIENTS}" in wrong


@pytest.mark.longer
def test_the_end_of_a_run_that_the_superlink_ended_is_no_error(place):
    """It does so with a server that is too busy to send heartbeats while it writes the results."""

    def end(grid):
        grid._runtime_client.PushTaskOutput(PushTaskOutputRequest(sub_status="failed", details=""))

    with flower_run(place.server) as grid:
        end(grid)
        assert heartbeat_of(grid)()
    with pytest.raises(UserError, match="ended the run: start again"), flower_run(place.server) as grid:
        end(grid)
        grid.get_node_ids()


@pytest.mark.slow
def test_the_wait_for_a_lost_superlink_is_limited(place, monkeypatch):
    monkeypatch.setattr(server_connection, "RECONNECT_TIMEOUT", 1.0)
    try:
        with pytest.raises(UserError, match="for 1 s"), flower_run(place.server) as grid:
            place.stop(["superlink"])
            grid.get_node_ids()
    finally:
        place.start_superlink()


AVAILABLE = 'kind = "available"\nprobability = 0.9\nsampler = { kind = "full" }'


@pytest.mark.slow
def test_available_clients_are_those_that_are_connected(place):
    """Two nodes are stopped after the first rounds; later cohorts of all available clients do not include them."""
    place.file = configuration(place.folder, "fedavg", change=('kind = "nice"\nsize = 3', AVAILABLE))
    started = [place.start_node(i) for i in range(CLIENTS)]
    with flower_run(place.server) as grid:
        experiment = read(place.file)
        built = build(experiment, None)
        mailbox = Mailbox(grid, deadline=60.0)
        infos = handshake(mailbox, handshake_of(experiment, built), CLIENTS, timeout=120.0)
        session = session_of(experiment, built, engine=partial(Flower, mailbox, infos, False))
        for _ in session.play():
            if session.round and len(started) == CLIENTS:
                before = session.round
                place.stop([started.pop(), started.pop()])
    place.stop(started)
    totals = to_ledger(session.trace.sites, session.trace.columns["counts"]).totals()
    assert np.diff(totals["available"]).tolist() == [*before * [CLIENTS], *(6 - before) * [CLIENTS - 2]]
    assert (totals["arrivals"] == totals["contacts"]).all()
