"""The time that nodes take is counted, and replayed by a simulation of their speeds."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

import turnout as t
from tests.helpers.clockless import clockless
from tests.helpers.in_process import InProcess
from turnout.engines.flower import engine, mailbox
from turnout.experiment.config import Reader

TOML = {
    "problem": {"kind": "logistic", "data": "breast_cancer", "mu": 0.1},
    "split": {"kind": "iid", "clients": 4},
    "sampler": {"kind": "full"},
    "algorithm": {"kind": "fedavg", "lr": 0.01, "steps": 2},
    "run": {"rounds": 3, "metrics": ["value"]},
    "devices": {"latency": 1000.0},
}
SECONDS = np.array([0.25, 1.0, 0.5, 2.0])


@pytest.fixture
def played(monkeypatch):
    """A federation whose nodes answer one after the other, each after its `SECONDS`, and its run."""
    now = [0.0]

    def slow(client):
        def answer(kind, number, reply):
            now[0] += SECONDS[client]
            return reply

        return answer

    monkeypatch.setattr(mailbox, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(engine, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    experiment = Reader("file", "", TOML).experiment("file")
    session = InProcess(experiment, {client: slow(client) for client in range(4)}).session()
    return experiment, session.run()


@pytest.mark.longer
def test_an_exchange_takes_until_the_last_reply_and_devices_are_not_simulated(played):
    _, session = played
    assert session.trace.frame["seconds"].to_list() == [SECONDS.sum() * round for round in range(4)]


@pytest.mark.longer
def test_the_measured_speeds_replay_the_run(played, tmp_path):
    experiment, session = played
    file = tmp_path / "devices.csv"
    file.write_text(session.engine.speeds())
    built, options = InProcess(experiment).built, {"rounds": 3, "metrics": ("value",), "every": 1}
    replayed = t.run(experiment.algorithm, built.problem, devices=t.Devices.from_csv(file), seed=0, **options)
    np.testing.assert_allclose(replayed.frame["seconds"], session.trace.frame["seconds"], rtol=1e-4)
    np.testing.assert_allclose(replayed.x, session.trace.x, rtol=1e-10)
    assert clockless(replayed).ledger == clockless(session.trace).ledger
