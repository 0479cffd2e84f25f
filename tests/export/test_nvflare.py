"""A configuration as a job of NVFlare plays the test vectors, in NVFlare's simulator where it is installed."""

import importlib.util
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np
import polars
import pytest

import turnout as t
from tests.export.vector_configurations import NAMES, assert_servers, values, written
from turnout import vectors
from turnout.experiment.build import build, session_of
from turnout.experiment.client import client_of
from turnout.experiment.config import read
from turnout.export.collab_engine import Collab
from turnout.io.serialization import decode
from turnout.runs.setup import scope

HERE = importlib.util.find_spec("nvflare") is not None
ROOT = Path(__file__).parents[2]

JOB = """
import sys

import turnout as t
from nvflare.recipe import SimEnv

if __name__ == "__main__":
    t.export.nvflare(sys.argv[1]).execute(SimEnv(num_clients=4, workspace_root="simulated"))
"""


class Sites:
    """The sites of a job in this process; those of `missing` do not answer."""

    def __init__(self, experiment, built):
        self.nodes = [client_of(experiment, built, i)[0] for i in range(built.problem.clients)]
        self.precision, self.missing, self.garbled = experiment.run.precision, (), ()

    def call(self, method, requests):
        with scope(self.precision):
            replies = {i: getattr(self.nodes[i], method)(*one) for i, one in requests.items() if i not in self.missing}
        garbled = {i: b"nothing" for i in self.garbled if i in replies}
        return replies | garbled, {i: "timed out" for i in requests if i in self.missing}


def session(file):
    """The session of a configuration with the engine of a job, and its sites."""
    experiment = read(file)
    built = build(experiment, None)
    sites = Sites(experiment, built)
    names = [f"site-{i}" for i in range(1, 1 + len(sites.nodes))]
    return session_of(experiment, built, engine=partial(Collab, sites.call, names)), sites


@pytest.mark.tiers(quick=[], longer=NAMES)
@pytest.mark.parametrize("name", NAMES)
def test_its_engine_plays_the_vectors(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    run, servers = session(written(name, tmp_path))[0], []
    for _ in range(run.rows):
        run.step(1)
        servers.append(jax.tree.map(np.array, run.progress.server))
    assert_servers(name, servers)
    np.testing.assert_allclose(run.trace.columns["value"], values(name), rtol=0, atol=1e-10)


@pytest.mark.longer
def test_a_site_that_does_not_answer_is_named_or_left_out(tmp_path, monkeypatch):
    """Round 1 of the vector asks clients 2 and 3. Without the first one the server takes the step of the other."""
    monkeypatch.syspath_prepend(tmp_path)
    file = written("fedavg", tmp_path)
    run, sites = session(file)
    run.step(1)
    sites.garbled = (3,)
    with pytest.raises(t.UserError, match="site-4: its reply is malformed"):
        run.step(1)
    file.write_text(file.read_text() + '[faults]\nmissing = "skip"\n')
    run, sites = session(file)
    run.step(1)
    sites.missing = (2,)
    run.step(1)
    vector = vectors.load("fedavg")
    change = vector["rounds"][0]["exchanges"][0]["replies"][1]["change"]
    np.testing.assert_allclose(run.progress.server, np.add(vector["start"]["server"]["x"], change), rtol=0, atol=1e-10)


@pytest.mark.skipif(HERE, reason="NVFlare is installed")
def test_a_missing_nvflare_is_told():
    with pytest.raises(t.UserError, match="pip install"):
        t.export.nvflare("any.toml")


@pytest.mark.slow
@pytest.mark.skipif(not HERE, reason="NVFlare is not installed: pip install nvflare==2.9.0")
@pytest.mark.parametrize("name", NAMES)
def test_the_simulator_plays_the_vectors(name, tmp_path):
    """Server and sites are processes of NVFlare: the last state of the server is the vector's, and so is f in each round."""
    file, path = written(name, tmp_path), os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    (tmp_path / "job.py").write_text(JOB)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"} | {"PYTHONPATH": path}
    command = [sys.executable, "job.py", str(file)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    (summary,) = tmp_path.glob("simulated/*/server/*/turnout/summary.json") or [None]
    assert summary is not None, done.stdout[-5000:] + done.stderr[-5000:]
    saved, _ = decode((summary.parent / "checkpoint.safetensors").read_bytes(), None)
    wanted = vectors.load(name)["rounds"][-1]["server"].values()
    for found, own in zip(saved["progress"][: len(wanted)], wanted, strict=True):
        np.testing.assert_allclose(found, own, rtol=0, atol=1e-10)
    trace = polars.read_parquet(summary.parent / "trace.parquet")
    np.testing.assert_allclose(trace["value"], values(name), rtol=0, atol=1e-10)
