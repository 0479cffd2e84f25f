"""What a network with delay adds to an exchange with many nodes."""

from collections import Counter
from dataclasses import replace
from statistics import median

from benchmarks.flower import ROUNDS, exchange_seconds
from benchmarks.flower_node import federation, prepared
from benchmarks.timing import Line
from turnout.engines.flower.greeting import handshake
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.server_connection import flower_run

DELAY = 0.05
"""Seconds for each direction."""

FEW, MANY, PROCESSES, REPEATS = 3, 50, 2, 5


def measure() -> list[Line]:
    """Return the time of an exchange with many nodes over that with few."""
    taken, requests = {}, {}
    for clients in (FEW, MANY):
        taken[clients], requests[clients] = exchange(clients, DELAY)
    each = {clients: median(times) for clients, times in taken.items()}
    note = ", ".join(f"{n} nodes {each[n]:.2f} s and {requests[n]:.0f} requests of the server" for n in each)
    # What remains is the computing of all processes on one machine.
    note = f"{note}, {MANY} nodes without delay {median(exchange(MANY, 0.0)[0]):.2f} s"
    settings = {"delay": DELAY, "clients": MANY, "processes": PROCESSES, "rows": 100, "width": 122, "precision": "single"}
    line = Line("flower-delay", f"an exchange with {MANY} nodes over {FEW}, {2 * DELAY:g} s there and back",
                each[MANY] / each[FEW], 2.0, note=note, settings=settings,
                timings={str(n): times for n, times in taken.items()})  # fmt: skip
    return [line]


def exchange(clients: int, delay: float) -> tuple[list[float], float]:
    """Return the times of exchanges with nodes in `PROCESSES` processes, and the requests of the server for one of them."""
    problem, algorithm, _, terms = prepared("W1", clients)
    with federation("W1", clients, PROCESSES, delay) as made:
        with flower_run(replace(made.server, address=made.reached)) as grid:
            mailbox, count = Mailbox(grid, 60.0), Counter()
            nodes = handshake(mailbox, terms, clients, timeout=300.0)
            grid._runtime_client._client.event_hooks["request"].append(lambda request: count.update([request.url.path]))

            def play() -> float:
                return exchange_seconds(algorithm, problem, mailbox, nodes)

            play()
            count.clear()
            times = [play() for _ in range(REPEATS)]
            assert not any(mailbox.counts.values())
            return times, sum(count.values()) / (REPEATS * ROUNDS)
