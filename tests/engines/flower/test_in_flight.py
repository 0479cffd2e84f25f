"""Requests in flight over a real SuperLink: replies are used as they come, and their order is replayed by the compiled engine."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

import turnout as t
from tests.helpers.turncoats import turncoats
from turnout.engines.flower import open_requests
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import handshake
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.server_connection import flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.experiment.experiment import Experiment
from turnout.federation.handshake import handshake_of
from turnout.io.atomic import write

CLIENTS, ROUNDS = 5, 8
PROBLEM = f"""
[problem]
kind = "logistic"
data = "breast_cancer"
normalize = "columns"
mu = 0.1
[split]
kind = "dirichlet"
clients = {CLIENTS}
concentration = 1.0
[sampler]
kind = "nice"
size = 1
[run]
rounds = {ROUNDS}
metrics = ["value"]
[algorithm]
kind = "gd"
lr = 0.05
"""

CASES = {
    "fedbuff": t.FedBuff(t.Nice(2), lr=0.05, steps=2, in_flight=4),
    "mifa": t.Mifa(t.Nice(1), lr=0.05, in_flight=4),
    "ringleader": t.Ringleader(t.Nice(1), lr=0.05, in_flight=CLIENTS),
}

EXCHANGES = {"ringleader": t.Exchange(up=t.codecs.TopK(fraction=0.4), down=t.codecs.Qsgd(bits=6), feedback="ef21")}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A federation of nodes that take part in whatever is played."""
    with turncoats(tmp_path_factory.mktemp("federation"), CLIENTS) as federation:
        yield federation


def experiment_of(name: str, folder: Path) -> Experiment:
    base, file = folder / "base.toml", folder / f"{name}.toml"
    base.write_text(PROBLEM + (f'[faults]\nmissing = "{name.split("-")[1]}"\n' if name.endswith("late") else ""))
    kind = name.split("-")[0]
    file.write_text(replace(read(base), algorithm=CASES[kind], exchange=EXCHANGES.get(kind)).to_toml())
    return read(file)


def session_with(experiment, grid, resumed: bool = False, deadline: float = 120.0):
    mailbox = Mailbox(grid, deadline=120.0)
    built = build(experiment, None)
    nodes = handshake(mailbox, handshake_of(experiment, built), CLIENTS, timeout=240.0)
    mailbox.deadline = deadline
    return session_of(experiment, built, engine=partial(Flower, mailbox, nodes, resumed))


def replayed(experiment, session, folder):
    """Play the compiled run with the arrivals of a session."""
    file = folder / "arrivals.csv"
    file.write_text(session.engine.arrivals())
    devices = t.Devices(arrivals=file)
    options = {"rounds": ROUNDS, "seed": experiment.run.seed, "metrics": ("value",), "every": experiment.run.every}
    return t.run(experiment.algorithm, build(experiment, None).problem, devices=devices, exchange=experiment.exchange, **options)


@pytest.mark.tiers(quick=[], slow=["fedbuff"])
@pytest.mark.parametrize("name", CASES)
def test_the_compiled_engine_replays_the_order_of_arrivals(place, name, tmp_path):
    experiment = experiment_of(name, place.folder)
    write(place.folder / "current", name)
    with flower_run(place.server) as grid:
        session = session_with(experiment, grid).run()
    real, again = session.trace, replayed(experiment, session, tmp_path)
    np.testing.assert_allclose(again.x, real.x, rtol=1e-10, atol=1e-10)
    assert again.ledger.totals() == pytest.approx(real.ledger.totals())
    totals = real.ledger.totals()
    assert real.frame["seconds"][-1] > 0 and totals["contacts"] > totals["arrivals"] == ROUNDS * CASES[name].sampler.size


@pytest.mark.slow
def test_a_server_that_starts_again_asks_for_what_was_in_flight(place):
    """Its run is finite, and all its requests are accounted for."""
    experiment = experiment_of("mifa-again", place.folder)
    write(place.folder / "current", "mifa-again")
    with flower_run(place.server) as grid:
        first = session_with(experiment, grid)
        while first.round < 3:
            first.step(1)
        snapshot = first.snapshot()
    with flower_run(place.server) as grid:
        second = session_with(experiment, grid, resumed=True)
        second.restore(snapshot)
        totals = second.run().trace.ledger.totals()
    assert second.round == ROUNDS and np.all(np.isfinite(second.trace.x))
    assert totals["arrivals"] == ROUNDS and totals["contacts"] == ROUNDS + 3


@pytest.mark.slow
def test_replies_after_the_deadline_are_not_used(place):
    experiment = experiment_of("mifa-skip-late", place.folder)
    write(place.folder / "current", "mifa-skip-late")
    with flower_run(place.server) as grid:
        session = session_with(experiment, grid, deadline=0.0).run()
    totals = session.trace.ledger.totals()
    assert totals["arrivals"] == 0 and totals["contacts"] == ROUNDS + 3
    np.testing.assert_array_equal(session.trace.x, 0)


@pytest.mark.everything
def test_a_client_that_is_late_again_and_again_ends_the_run_with_a_sentence(place, monkeypatch):
    monkeypatch.setattr(open_requests, "FIRST_PAUSE", 0.0)
    experiment = experiment_of("mifa-repeat-late", place.folder)
    write(place.folder / "current", "mifa-repeat-late")
    with flower_run(place.server) as grid, pytest.raises(t.UserError, match="no reply within 0 s, after 12 requests: look into"):
        session_with(experiment, grid, deadline=0.0).run()
