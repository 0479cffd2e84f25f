"""What a node with a NumPy client takes of a machine's memory."""

import re
import sys
import time
from contextlib import chdir
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.timing import Line
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.server_connection import flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.federation.local import Federation
from turnout.federation.server import connect_clients

NODES, SECONDS = 10, 20.0
"""Processes of one node each, and how long they work at least before their memory is measured."""

CLIENTS = """
import numpy as np
from turnout import NumpyOracle

def start():
    return np.zeros(10)

def client(number):
    rng = np.random.default_rng(number)
    features, targets = rng.normal(size=(100, 10)), rng.normal(size=100)
    value = lambda x, rows: np.mean((features[rows] @ x - targets[rows]) ** 2) / 2
    gradient = lambda x, rows: features[rows].T @ (features[rows] @ x - targets[rows]) / len(targets[rows])
    return NumpyOracle(value, gradient, size=100)
"""

FILE = f"""
problem = {{ kind = "remote", module = "numpy_clients", clients = {NODES} }}
sampler = {{ kind = "nice", size = {NODES} }}
algorithm = {{ kind = "fedavg", lr = 0.1, steps = 5 }}
run = {{ rounds = 1000000, engine = "nodes", metrics = ["value"] }}
"""


def measure() -> list[Line]:
    """Return the memory of a node's process in the middle of a run, where pages that processes share are divided among them."""
    # Nodes import the module from where they are started, and the server from its path.
    with TemporaryDirectory() as folder, chdir(folder):
        sys.path.insert(0, folder)
        file = Path(folder) / "numpy.toml"
        file.write_text(FILE)
        file.with_name("numpy_clients.py").write_text(CLIENTS)
        federation = Federation(file.parent / "federation", file, NODES, None)
        try:
            federation.start()
            own = played(federation)
        finally:
            federation.stop()
    return [
        Line("flower-node-memory", f"a node with a NumPy client, {NODES} of them", median(own), 120.0, unit="MiB",
             note=f"PSS, {min(own):.0f} to {max(own):.0f} MiB", settings={"nodes": NODES, "own": own}),
    ]  # fmt: skip


def played(federation: Federation) -> list[float]:
    """Play rounds, and return the MiB of each node's process."""
    experiment = read(federation.file)
    built = build(experiment, None, [1] * NODES)
    with flower_run(federation.server) as grid:
        mailbox, nodes = connect_clients(grid, experiment, None, 60.0, keys=federation.folder)
        session = session_of(experiment, built, engine=partial(Flower, mailbox, nodes, False))
        end = time.monotonic() + SECONDS
        for _ in session.play():
            if time.monotonic() > end:
                break
        return [share(child.pid) for name, child in federation.children.items() if name.startswith("node")]


def share(process: int) -> float:
    """Return the MiB of a process, with its share of the pages that it has in common with others (PSS)."""
    content = Path(f"/proc/{process}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+) kB", content, re.MULTILINE)[1]) / 1024
