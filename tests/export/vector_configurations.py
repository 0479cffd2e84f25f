"""Configurations that play test vectors, with the rows of their clients in a Python module, as exports take them."""

from pathlib import Path

import numpy as np

import turnout as t
from tests.vectors.turnout_runs import RUNS, SEED
from turnout import vectors
from turnout.experiment.experiment import Experiment, RunSpec
from turnout.experiment.remote_spec import RemoteSpec

NAMES = ("fedavg", "fedprox", "scaffold-2", "fednova", "dane", "svrp")
"""Averaging, a proximal term, private states, steps that differ, two exchanges in a round, two cohorts of which one is random."""

MODULE = """
import numpy as np
from tests.vectors.turnout_runs import problem_of
from turnout import vectors

VECTOR = vectors.load("{name}")


def start():
    return np.array(VECTOR["start"]["server"]["x"])


def client(number):
    return problem_of(VECTOR, start()).client(number)
"""


def written(name: str, folder: Path) -> Path:
    """Write the configuration of a vector, and the module of its clients, to a folder; return the configuration."""
    vector, module = vectors.load(name), f"clients_of_{name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(MODULE.format(name=name))
    clients, weights = vector["problem"]["clients"], np.array(vector["problem"]["weights"])
    sizes = np.array([len(client["targets"]) for client in clients])
    how = "uniform" if np.ptp(weights) == 0 else "size"
    assert how == "uniform" or np.allclose(weights, sizes / sizes.sum(), rtol=1e-15)
    experiment = Experiment(
        name,
        RemoteSpec(module, len(clients), how),
        None,
        RUNS[name].make(vector["parameters"], t.Nice(2)),
        RunSpec(rounds=len(vector["rounds"]), seed=SEED, engine="nodes", metrics=["value"]),
    )
    file = folder / f"{name}.toml"
    file.write_text(experiment.to_toml())
    return file


def assert_servers(name: str, servers: list) -> None:
    """Compare the server's states after 0, 1, ... rounds with a vector's, to 1e-10."""
    vector, run = vectors.load(name), RUNS[name]
    assert len(servers) == 1 + len(vector["rounds"])
    for number, (server, wanted) in enumerate(zip(servers, [vector["start"], *vector["rounds"]], strict=True)):
        for one, other in zip(run.server(server, vector["parameters"]), wanted["server"].values(), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-10, err_msg=f"{name}, round {number}")


def values(name: str) -> list[float]:
    """f at the vector's x after 0, 1, ... rounds, in NumPy."""
    vector = vectors.load(name)
    problem = vector["problem"]
    assert problem["loss"] == "squared"

    def value(x):
        def of(client):
            return np.mean((np.array(client["features"]) @ x - client["targets"]) ** 2) / 2

        return np.dot(problem["weights"], [of(client) for client in problem["clients"]]) + problem["mu"] / 2 * x @ x

    return [value(np.array(one["server"]["x"])) for one in (vector["start"], *vector["rounds"])]
