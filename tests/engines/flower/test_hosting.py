"""Nodes of several clients in one process, and what a node says that the SuperLink refuses for its clock."""

from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.supercore.date import now

from tests.helpers.clockless import clockless
from tests.helpers.commands import config, turnout, wait_for
from tests.helpers.in_process import InProcess
from turnout.cli.node import clients_in
from turnout.core.errors import UserError
from turnout.engines.flower import greeting, hosting, node_connection
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.hosting import reason_of, serve
from turnout.engines.flower.keys import read_node_key
from turnout.engines.flower.node_connection import Refused
from turnout.engines.flower.server_connection import flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import Reader, read
from turnout.federation import process_group
from turnout.federation.local import Federation
from turnout.federation.server import connect_clients

CLIENTS = 12


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A SuperLink, and nodes of twelve clients in two processes."""
    folder = tmp_path_factory.mktemp("federation")
    federation = Federation(folder / "federation", config(folder), CLIENTS, None, processes=2)
    try:
        federation.start()
        yield federation
    finally:
        federation.stop()


@pytest.mark.slow
def test_clients_of_one_process_give_the_compiled_run(place):
    assert [*place.children] == ["superlink", "nodes-0-5", "nodes-6-11"]
    experiment = read(place.file)
    built = build(experiment, None)
    with flower_run(place.server) as grid:
        mailbox, nodes = connect_clients(grid, experiment, None, 60.0, keys=place.folder)
        real = clockless(session_of(experiment, built, engine=partial(Flower, mailbox, nodes, False)).run().trace)
    expected = session_of(experiment, built).run().trace
    assert not any(mailbox.counts.values()) and len({info.node for info in nodes.values()}) == CLIENTS
    np.testing.assert_allclose(real.x, expected.x, rtol=1e-10)
    assert real.ledger.totals() == expected.ledger.totals()


@pytest.mark.longer
@pytest.mark.parametrize(("seconds", "said"), [(-600, "behind"), (600, "ahead of")])
def test_a_node_with_a_wrong_clock_says_so(place, monkeypatch, seconds, said):
    for module in (node_connection, hosting):
        monkeypatch.setattr(module, "now", lambda: now() + timedelta(seconds=seconds))
    monkeypatch.setattr(hosting, "stop_at_sigterm", lambda: None)
    members = [(lambda message, context: message, read_node_key(place.key(0)))]
    with pytest.raises(UserError, match=rf"the clock of this machine is (59\d|60\d) s {said} that of the SuperLink"):
        serve(members, place.server.address, place.server.authority)


@pytest.mark.slow
def test_a_stopped_process_of_several_clients_may_connect_again_at_once(place):
    with flower_run(place.server) as grid:
        wait_for(lambda: len({*grid.get_node_ids()}) == CLIENTS)
        place.stop(["nodes-0-5"])
        assert len({*grid.get_node_ids()}) == CLIENTS // 2
        place.start_nodes(range(6))
        _, nodes = connect_clients(grid, read(place.file), None, 60.0, keys=place.folder)
    assert all(info.node is not None for info in nodes.values())


def refusal(cause: Exception) -> Refused:
    """Return what a node raises that is refused for `cause`."""
    error = Refused("refused")
    error.__context__ = cause
    return error


def test_a_certificate_of_another_authority_or_another_time_is_a_sentence():
    cause = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate is not yet valid")
    assert "ca.crt, and set its clock" in str(reason_of(refusal(cause), "lab:9092"))
    assert reason_of(refusal(httpx.ConnectError("refused")), "lab:9092") is None


@given(st.floats(-290, 4), st.floats(0, 60))
def test_a_clock_within_the_tolerance_is_not_blamed(seconds, busy):
    """Nor is the clock of a node whose request waited at a busy SuperLink."""
    for away in (seconds, seconds + busy if seconds > 0 else seconds - busy):
        date = (now() - timedelta(seconds=away)).strftime("%a, %d %b %Y %H:%M:%S GMT")
        response = SimpleNamespace(headers={"date": date}, elapsed=timedelta(seconds=busy))
        cause = httpx.HTTPStatusError("401", request=None, response=response)
        assert reason_of(refusal(cause), "lab:9092") is None


def test_a_client_that_fails_leaves_the_others_at_work(monkeypatch):
    """Two nodes: one is refused for good, the other answers until it is stopped."""
    monkeypatch.setattr(hosting, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(hosting, "stop_at_sigterm", lambda: None)
    stayed = []

    def stay(host):
        if host.app is None:
            raise UserError("refused")
        stayed.append(host)
        host.stopped.wait(1.0)

    monkeypatch.setattr(hosting.Turn, "of", lambda turn, app: app)
    monkeypatch.setattr(hosting.Host, "stay", stay)
    with pytest.raises(UserError, match="refused"):
        serve([(None, ()), (len, ())], "lab:9092", None)
    assert len(stayed) == 1


TOML = {
    "problem": {"kind": "log-sum", "clients": 4, "dimension": 4, "parts": 1},
    "sampler": {"kind": "full"},
    "run": {"rounds": 1, "metrics": ["value"]},
    "algorithm": {"kind": "fedavg", "steps": 2, "lr": 0.001},
}


class Slow(InProcess):
    """A mailbox with one node more at each look."""

    looks = 0

    def connected(self):
        self.looks += 1
        return super().connected()[: self.looks]


def test_the_server_waits_as_long_as_clients_come(monkeypatch):
    """Each look takes 10 s, and 15 s without a client are too many: all four come in 40 s, but three do not bring a fourth."""
    mailbox = Slow(Reader("file.toml", "", TOML).experiment("file"))
    clock = SimpleNamespace(monotonic=lambda: 10.0 * mailbox.looks, sleep=lambda seconds: None)
    monkeypatch.setattr(greeting, "time", clock)
    assert len({info.node for info in mailbox.greeted(timeout=15.0).values()}) == 4
    mailbox = Slow(Reader("file.toml", "", TOML).experiment("file"))
    del mailbox.apps[13]
    with pytest.raises(UserError, match="1 clients did not answer within 15 s, the first is client 3"):
        mailbox.greeted(timeout=15.0)


@given(st.integers(0, 100), st.integers(0, 100))
def test_clients_are_named_by_the_first_and_the_last(first, count):
    assert [*clients_in(f"{first}-{first + count}")] == [*range(first, first + count + 1)]


@given(st.lists(st.integers(0, 100), min_size=1))
def test_clients_are_named_one_by_one(numbers):
    assert clients_in(",".join(map(str, numbers))) == numbers


@given(st.text(max_size=6).filter(lambda text: not text.partition("-")[0].partition(",")[0].isdecimal()))
def test_what_names_no_clients_is_a_sentence(text):
    with pytest.raises(UserError, match="such as 0-39"):
        clients_in(text)


def test_a_node_needs_one_client_or_several(tmp_path):
    rest = ("--superlink", "localhost:1", "--authority", tmp_path, "--key", tmp_path, "--states", tmp_path)
    for which in ((), ("--client", 0, "--clients", "0-1")):
        code, _, wrong = turnout("node", "file.toml", *which, *rest)
        assert code == 2 and "--client K, or --clients A-B" in wrong


def test_threads_share_the_machine(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("NPROC", "3")
    monkeypatch.setattr(process_group, "cores", lambda: 8)
    assert process_group.share(3) == {"OMP_NUM_THREADS": "2", "NPROC": "3"}
    assert process_group.share(40)["OMP_NUM_THREADS"] == "1"
