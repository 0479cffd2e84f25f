"""Every algorithm over a real SuperLink with ten nodes: the compiled engine's numbers and ledger. `pytest -m everything`."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

import turnout as t
from tests.helpers.clockless import clockless
from tests.helpers.examples import ALGORITHMS, ESTIMATORS, SOLVERS, icgm, sppm
from tests.helpers.in_process_hubs import InProcessHubs
from tests.helpers.turncoats import turncoats
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import handshake
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.server_connection import flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.experiment.experiment import Experiment
from turnout.federation.handshake import handshake_of
from turnout.io.atomic import write

CLIENTS = 10
PROBLEM = f"""
[problem]
kind = "logistic"
data = "breast_cancer"
normalize = "columns"
mu = 0.1
weights = "WEIGHTS"
[split]
kind = "dirichlet"
clients = {CLIENTS}
concentration = 1.0
[sampler]
kind = "nice"
size = 3
[run]
rounds = 4
[algorithm]
kind = "gd"
lr = 0.05
"""

CASES = {name: example.make(t.Nice(3)) for name, example in ALGORITHMS.items()}
CASES |= {f"icgm-{name}": icgm(estimator, t.Nice(3)) for name, estimator in ESTIMATORS.items() if name != "rg-saga"}
CASES |= {f"sppm-{name}": sppm(solver, t.Nice(3)) for name, solver in SOLVERS.items() if name != "gd"}


def experiment_of(name: str, folder: Path) -> Experiment:
    """Write an example's configuration to the folder and read it."""
    base, file = folder / "base.toml", folder / f"{name}.toml"
    weights = "uniform" if name in ("fedavg-sppm", "scaffnew") else "size"
    base.write_text(PROBLEM.replace("WEIGHTS", weights))
    file.write_text(replace(read(base), algorithm=CASES[name]).to_toml())
    return read(file)


@pytest.mark.parametrize("name", CASES)
def test_every_example_is_a_configuration(name, tmp_path):
    assert type(experiment_of(name, tmp_path).algorithm) is type(CASES[name])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A federation of nodes that take part in whatever is played."""
    with turncoats(tmp_path_factory.mktemp("federation"), CLIENTS) as federation:
        yield federation


@pytest.mark.everything
@pytest.mark.parametrize("name", CASES)
def test_ten_nodes_give_the_compiled_run(place, name):
    experiment = experiment_of(name, place.folder)
    write(place.folder / "current", name)
    built = build(experiment, None)
    with flower_run(place.server) as grid:
        mailbox = Mailbox(grid, deadline=120.0)
        nodes = handshake(mailbox, handshake_of(experiment, built), CLIENTS, timeout=240.0)
        real = clockless(session_of(experiment, built, engine=partial(Flower, mailbox, nodes, False)).run().trace)
    expected = session_of(experiment, built).run().trace
    assert not any(many for reason, many in mailbox.counts.items() if "agree" not in reason)
    for column in expected.columns:
        np.testing.assert_allclose(real.columns[column], expected.columns[column], rtol=1e-10, atol=1e-10, err_msg=column)
    np.testing.assert_allclose(real.x, expected.x, rtol=1e-10, atol=1e-10)
    assert real.ledger.totals() == expected.ledger.totals()


@pytest.mark.everything
@pytest.mark.parametrize("name", CASES)
def test_hubs_give_the_compiled_run(name, tmp_path):
    """Without the network between: four hubs, and what the server's link counts is what passes it."""
    experiment = replace(experiment_of(name, tmp_path), hubs=t.Hubs(4))
    if experiment.algorithm.places:
        with pytest.raises(t.UserError, match="has requests in flight"):
            InProcessHubs(experiment).session()
        return
    place, expected = InProcessHubs(experiment), session_of(experiment, build(experiment, None)).run().trace
    real = clockless(place.session().run().trace)
    for column in expected.columns.keys() - {"counts"}:
        np.testing.assert_allclose(real.columns[column], expected.columns[column], rtol=1e-10, atol=1e-10, err_msg=column)
    np.testing.assert_allclose(real.x, expected.x, rtol=1e-10, atol=1e-10)
    assert real.ledger.totals() == expected.ledger.totals()
    assert (place.payloads["down"], place.payloads["up"]) == tuple(
        real.ledger.totals()[f"server_bytes_{way}"] for way in ("down", "up")
    )
