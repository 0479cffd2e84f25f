"""What an exchange over a real federation takes, and a round of federated averaging over one of Flower's own."""

from functools import partial
from statistics import median

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import FedAvg

from benchmarks.flower_node import SEEDS, federation, prepared
from benchmarks.timing import Line, alternate, ratio, seconds
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import Members, handshake
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.server_connection import flower_run
from turnout.runs.session import Session

EXCHANGES, ROUNDS = 20, 2
BARS = {3: 0.3, 10: 1.0}
"""Seconds that an exchange with so many nodes may take."""


def measure() -> list[Line]:
    """Return the median time of an exchange for each number of nodes, and the time of a round over Flower's with the most."""
    return [line for clients in BARS for line in lines_of(clients)]


def lines_of(clients: int) -> list[Line]:
    """Measure one federation on the problem W1, cut down to so many clients."""
    problem, algorithm, job, terms = prepared("W1", clients)
    settings = {"clients": clients, "rows": 100, "width": 122, "precision": "single"}
    with federation("W1", clients) as made, flower_run(made.server) as grid:
        mailbox = Mailbox(grid, 60.0)
        nodes = handshake(mailbox, terms, clients, timeout=300.0)

        def ours() -> float:
            return exchange_seconds(algorithm, problem, mailbox, nodes)

        def theirs() -> float:
            strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
            start = ArrayRecord([np.asarray(job.start)])
            return seconds(lambda: strategy.start(grid, start, num_rounds=ROUNDS)) / ROUNDS

        ours()
        taken = [ours() for _ in range(EXCHANGES)]
        lines = [
            Line("flower", f"an exchange with {clients} nodes", median(taken), BARS[clients], unit="s",
                 note=f"a round of federated averaging; median of {EXCHANGES} times {ROUNDS}", settings=settings,
                 timings={"exchange": taken}),
        ]  # fmt: skip
        if clients == max(BARS):
            both = alternate({"turnout": ours, "flower": theirs})
            note = ", ".join(f"{side} {median(times):.2f} s a round" for side, times in both.items())
            lines.append(Line("flower", f"a round over Flower's FedAvg, {clients} nodes", ratio(both, "turnout", "flower"), 1.1,
                              note=note, settings={**settings, "rounds": ROUNDS}, timings=both))  # fmt: skip
        return lines


def exchange_seconds(algorithm, problem, mailbox: Mailbox, nodes: Members) -> float:
    """Return the seconds of an exchange: the mean over `ROUNDS` rounds of federated averaging."""
    session = Session(
        algorithm, problem, seeds=SEEDS, rounds=ROUNDS, metrics=("value",), precision="single",
        deployed=partial(Flower, mailbox, nodes, False),
    )  # fmt: skip
    chunks = session.play()
    next(chunks)  # The row before the first round.
    return seconds(lambda: list(chunks)) / ROUNDS
