"""Every algorithm over a real SuperLink with ten nodes: the compiled engine's numbers and ledger. `pytest -m everything`."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.commands import KEPT
from turnout.engines.flower.engine import Flower, Mailbox, handshake
from turnout.engines.flower.server_connection import flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.experiment.registry import TABLES
from turnout.federation.handshake import handshake_of
from turnout.federation.local import Federation
from turnout.io.atomic import write

HELPERS = Path(__file__).parents[2] / "helpers"
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
kind = """

LOCAL = 'solver = { kind = "gradient", lr = 0.05, steps = 20, tolerance = 0.0 }'
"""A client's own solver, which takes the same steps whatever the rounding."""

SGD = "optimiser = { kind = 'sgd', lr = 0.05 }"

ALGORITHMS = {
    "accfeddcd": f"{LOCAL}",
    "ce-lgd": "lr = 0.05\nsteps = 3",
    "fedavg": "lr = 0.05\nbatch = 8\nepochs = 2",
    "fedavg-sppm": f"gamma = 1.0\nalpha = 0.5\n{LOCAL}",
    "feddcd": f"{LOCAL}",
    "feddyn": f"gamma = 1.0\n{LOCAL}",
    "fedlamb": "lr = 0.01\nbatch = 8\nepochs = 2",
    "fedopt": f"{SGD}\nserver_optimiser = {{ kind = 'fedyogi', lr = 0.05 }}\nbatch = 8\nsteps = 3",
    "fedprox": "lr = 0.05\nsteps = 3\nmu = 0.7",
    "fedprox-sppm": f"gamma = 1.0\ninner = 2\n{LOCAL}",
    "fedred": "lam = 1.0\nsmoothness = 5.0",
    "fedspeed": f"{SGD}\ngamma = 1.0\nsteps = 3",
    "fedvarp": 'lr = 0.05\nsteps = 3\nmemory = "clients"',
    "gd": "lr = 0.05",
    "icgm": 'estimator = "rg-saga"\nlam = 1.0\nprobability = 0.3',
    "mbgd": "lr = 0.05",
    "mblocalgd": "lr = 0.05\nsteps = 3",
    "mime": f"{SGD}\nsteps = 3",
    "mimelite": "optimiser = { kind = 'adam', lr = 0.05 }\nsteps = 3",
    "mimemvr": "lr = 0.05\nsteps = 3\nmomentum = 0.2",
    "point-saga": f"gamma = 1.0\n{LOCAL}",
    "saber-full": f"lam = 1.0\n{LOCAL}",
    "saber-partial": f"lam = 1.0\n{LOCAL}",
    "scaffnew": "lr = 0.05\nprobability = 0.5",
    "scaffold": 'lr = 0.05\nsteps = 3\noption = "I"',
    "scaffold-sag": "lr = 0.05\nsteps = 3",
    "sppm": 'gamma = 10.0\ninner = 3\nsolver = { kind = "lbfgs" }',
}
ESTIMATORS = [kind for kind in TABLES["estimator"] if kind != "rg-saga"]
CASES = {kind: f'"{kind}"\n{rest}\n' for kind, rest in ALGORITHMS.items()} | {
    f"icgm-{kind}": f'"icgm"\nestimator = "{kind}"\nlam = 1.0\nprobability = 0.3\n' for kind in ESTIMATORS
}


def test_no_algorithm_is_left_out():
    assert {*ALGORITHMS} == {*TABLES["algorithm"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A federation of nodes that take part in whatever is played."""
    folder = tmp_path_factory.mktemp("federation")
    federation = Federation(folder, folder / "none.toml", CLIENTS, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2] / "helpers"), os.environ.get("PYTHONPATH", "")])
        )
        for name, value in KEPT.items():
            patch.setenv(name, value)
        try:
            federation.start_registered_superlink()
            for i in range(CLIENTS):
                server = federation.server
                federation.run(f"node-{i}", "turncoat", folder, i, server.address, server.authority, federation.key(i))
            yield federation
        finally:
            federation.stop()


@pytest.mark.everything
@pytest.mark.parametrize("name", CASES)
def test_ten_nodes_give_the_compiled_run(place, name):
    file = place.folder / f"{name}.toml"
    weights = "uniform" if name in ("fedavg-sppm", "scaffnew") else "size"
    file.write_text(PROBLEM.replace("WEIGHTS", weights) + CASES[name])
    write(place.folder / "current", name)
    experiment = read(file)
    built = build(experiment, None)
    with flower_run(place.server) as grid:
        mailbox = Mailbox(grid, deadline=120.0)
        nodes = handshake(mailbox, handshake_of(experiment, built), CLIENTS, timeout=240.0)
        real = session_of(experiment, built, engine=partial(Flower, mailbox, nodes, False)).run().trace
    expected = session_of(experiment, built).run().trace
    assert not any(many for reason, many in mailbox.counts.items() if "agree" not in reason)
    for column in expected.columns:
        np.testing.assert_allclose(real.columns[column], expected.columns[column], rtol=1e-10, atol=1e-10, err_msg=column)
    np.testing.assert_allclose(real.x, expected.x, rtol=1e-10, atol=1e-10)
    assert real.ledger.totals() == expected.ledger.totals()
