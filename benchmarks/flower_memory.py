"""What rounds on large models take of the server's memory, over what Flower alone takes, and of the SuperLink's, by nodes."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.superlink.grid import HttpGrid

from benchmarks.flower_node import SEEDS, Made, federation, prepared
from benchmarks.memory import peak_bytes
from benchmarks.timing import Line
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import handshake
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.server_connection import Server, flower_run
from turnout.runs.session import Session

WIDTH = 100_000_000
CLIENTS = (1, 3)
DEADLINE = 1800.0
MESSAGE, NODES = 25_000_000, (3, 10)
"""Numbers of a message of 100 MB, and to how many nodes it is sent."""


def measure() -> list[Line]:
    """Return the peak of a server that plays a round, less the model's own bytes, over that of a bare exchange with one node."""
    peaks = {clients: peaks_of(clients, WIDTH) for clients in CLIENTS}
    model, lines = 4 * WIDTH, []
    for clients, peak in peaks.items():
        note = ", ".join(f"{name} {value / 2**20:.0f} MiB" for name, value in peak.items())
        settings = {"clients": clients, "width": WIDTH, "precision": "single", "peaks": peak}
        lines.append(Line("flower-memory", f"server, {clients} replies, less one model, over Flower's",
                          (peak["turnout"] - model) / peaks[1]["flower"], 1.0, note=note, settings=settings))  # fmt: skip
    return lines + growth()


def growth() -> list[Line]:
    """Return the peaks of server and SuperLink with ten nodes, in two processes, over those with three."""
    few, many = (peaks_of(clients, MESSAGE, processes=2) for clients in NODES)
    settings = {"clients": NODES, "width": MESSAGE, "precision": "single", "peaks": [few, many]}
    return [
        Line("flower-memory", f"{name}, {NODES[1]} nodes over {NODES[0]}, messages of 100 MB", many[key] / few[key], 1.5,
             note=f"{few[key] / 2**20:.0f} MiB, {many[key] / 2**20:.0f} MiB", settings=settings)
        for name, key in (("server", "turnout"), ("SuperLink", "superlink"))
    ]  # fmt: skip


def peaks_of(clients: int, width: int, processes: int | None = None) -> dict[str, int]:
    """Return the peak memory of processes: servers that play a round and that exchange an array with one node, and others."""
    peaks = {}
    with federation(f"wide:{width}", clients, processes) as made:
        if clients == 1:
            peaks["flower"] = int(child("flower", made))
        peaks["turnout"] = int(child("turnout", made))
        for name in ("superlink", "node-0"):
            peaks[name] = peak_bytes(made.children[name].pid)
    return peaks


def child(what: str, made: Made) -> str:
    """Return the peak memory of a server in a process of its own, in bytes."""
    command = [sys.executable, "-m", "benchmarks.flower_memory", what, made.kind, str(made.clients), made.server.address]
    done = subprocess.run([*command, str(made.folder)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout.split()[-1]


def bare_exchange(server: Server, width: int) -> None:
    """Send an array to a node that sends it back, by Flower alone."""
    with flower_run(server) as grid:
        grid._try_push_messages = partial(HttpGrid._try_push_messages, grid)
        while not (nodes := list(grid.get_node_ids())):
            pass
        arrays = ArrayRecord([np.random.default_rng(0).random(width, np.float32)])
        (reply,) = grid.send_and_receive([Message(RecordDict({"arrays": arrays}), nodes[0], "query.echo")])
        assert reply.has_content(), reply.error
        assert len(reply.content["arrays"].to_numpy_ndarrays()[0]) == width


def play(server: Server, kind: str, clients: int) -> None:
    """Play a round of federated averaging."""
    # Without the job, which has a model of its own.
    problem, algorithm, terms = (part for k, part in enumerate(prepared(kind, clients)) if k != 2)
    with flower_run(server) as grid:
        mailbox = Mailbox(grid, DEADLINE)
        nodes = handshake(mailbox, terms, clients, timeout=600.0)

        def engine(*arguments):
            return Flower(mailbox, nodes, False, *arguments)

        options = {"seeds": SEEDS, "rounds": 1, "metrics": ("value",), "precision": "single"}
        session = Session(algorithm, problem, deployed=engine, **options).run()
        assert session.trace.ledger.totals()["arrivals"] == clients and not any(mailbox.counts.values())


if __name__ == "__main__":
    what, kind, clients, address, folder = sys.argv[1:]
    server = Server(address, Path(folder) / "ca.crt", (Path(folder) / "secret").read_text())
    if what == "flower":
        bare_exchange(server, int(kind.partition(":")[2]))
    else:
        play(server, kind, int(clients))
    print(peak_bytes())
