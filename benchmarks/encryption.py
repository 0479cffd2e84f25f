"""What sums under encryption cost against plain sums: bytes of a reply, and seconds of an exchange."""

from functools import partial
from statistics import median

import numpy as np

import turnout as t
from benchmarks.data import equal_clients
from benchmarks.timing import REPEATS, SEED, Line, alternate, ratio, seconds
from turnout.engines.encryption import SumKey, add, new_key
from turnout.runs.session import Session

CLIENTS, ROWS, ROUNDS = 5, 20, 10
WIDTHS = (124, 100_000)


def measure() -> list[Line]:
    """Return bytes and seconds for a small and a larger model."""
    return [line for width in WIDTHS for line in workload(width)]


def workload(width: int) -> list[Line]:
    """Measure an exchange with all clients, which are nodes in one process, and the steps of encryption alone."""
    problem = equal_clients(CLIENTS, ROWS, width)
    sessions = {how: partial(new_session, problem, how) for how in ("sum", "encrypted")}

    def play(how: str) -> float:
        chunks = sessions[how]().play()
        next(chunks)  # The row before the first round.
        return seconds(lambda: list(chunks)) / ROUNDS

    taken = alternate({how: partial(play, how) for how in sessions})
    each = {how: median(times) for how, times in taken.items()}
    parts = ", ".join(f"{name} {median(times):.2g}" for name, times in steps(width).items())
    sent = {how: bytes_up(make()) for how, make in sessions.items()}
    settings = {"clients": CLIENTS, "rows": ROWS, "width": width, "rounds": ROUNDS, "precision": "double", "seeds": [SEED]}
    note = f"{each['encrypted']:.2g} against {each['sum']:.2g} s; {parts}"
    return [
        Line("encryption", f"{width} numbers: bytes of a reply over a plain one's", sent["encrypted"] / sent["sum"],
             note=f"{sent['encrypted']:,} against {sent['sum']:,} bytes", settings=settings),
        Line("encryption", f"{width} numbers: an exchange over a plain one", ratio(taken, "encrypted", "sum"), note=note,
             settings=settings, timings=taken),
    ]  # fmt: skip


def new_session(problem, how: str) -> Session:
    """Return a run of federated averaging whose server gets sums."""
    algorithm = t.FedAvg(t.Full(), lr=0.1, steps=1)
    options = {"rounds": ROUNDS, "every": ROUNDS, "engine": "nodes", "precision": "double", "seed": SEED}
    return Session(algorithm, problem, aggregation=how, **options)


def bytes_up(session: Session) -> int:
    """Return the bytes of one reply to the call that trains."""
    (row,) = (row for row in session.run().trace.ledger.rows() if row["method"] == "train")
    return row["bytes_up"]


def steps(width: int) -> dict[str, list[float]]:
    """Return the seconds in which one client encrypts, the server adds the replies, and one client decrypts the sum."""
    key, reply = SumKey(new_key(), CLIENTS), np.random.default_rng(SEED).normal(size=width)
    replies = [key.encrypt(reply) for _ in range(CLIENTS)]
    total = add(replies)
    timed = {
        "encrypt": lambda: key.encrypt(reply),
        "add": lambda: add(replies),
        "decrypt": lambda: key.decrypt(total, width, CLIENTS),
    }
    return alternate({name: partial(seconds, step) for name, step in timed.items()}, REPEATS)
