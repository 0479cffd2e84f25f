"""Requests in flight: client updates per second against synchronous rounds, and the cost of an event with many clients."""

from statistics import median

import turnout as t
from benchmarks.data import equal_clients
from benchmarks.timing import SEED, Line, alternate, ratio, seconds
from turnout.devices import LogNormal
from turnout.runs.session import Session

LR, STEPS, IN_FLIGHT = 0.1, 5, 100
SIZES = {"rows": 100, "width": 122}
COHORT, UPDATES = 10, 50_000

FEW, MANY = 100, 100_000
SMALL = {"rows": 1, "width": 20}
EVENTS = 5_000


def measure() -> list[Line]:
    """Return the client updates per second of FedBuff over those of FedAvg, and the time of an event with many clients."""
    return [updates(), updates(cohort=1, bar=None), events()]


def updates(cohort: int = COHORT, bar: float | None = 0.7) -> Line:
    """Measure FedBuff with some replies at a time against synchronous rounds of ten clients.

    Args:
        cohort: Replies at a time.
        bar: Bar of the ratio.
    """
    problem, devices = equal_clients(FEW, **SIZES), t.Devices(seconds_per_query=LogNormal(median=1.0, sigma=1.0))
    rounds = {"synchronous": UPDATES // COHORT, "asynchronous": UPDATES // COHORT}
    algorithms = {
        "synchronous": t.FedAvg(t.Nice(COHORT), LR, STEPS),
        "asynchronous": t.FedBuff(t.Nice(cohort), LR, STEPS, in_flight=IN_FLIGHT, buffer=COHORT // cohort),
    }
    taken = alternate({side: runner(algorithms[side], problem, rounds[side], devices) for side in rounds}, 5)
    settings = {"clients": FEW, **SIZES, "cohort": cohort, "in_flight": IN_FLIGHT, "steps": STEPS, "updates": UPDATES,
                "precision": "single", "seeds": [SEED]}  # fmt: skip
    each = {side: UPDATES / median(times) for side, times in taken.items()}
    note = f"{each['asynchronous']:,.0f} against {each['synchronous']:,.0f} client updates a second"
    title = f"client updates a second over FedAvg's, {cohort} at a time"
    return Line("asynchronous", title, ratio(taken, "synchronous", "asynchronous"), bar, at_least=True, note=note,
                settings=settings, timings=taken)  # fmt: skip


def events() -> Line:
    """Measure an event of ten replies with many clients over one with few."""
    devices = t.Devices(seconds_per_query=LogNormal(median=1.0, sigma=1.0))
    algorithms = {
        "event": t.FedBuff(t.Nice(COHORT), LR, STEPS, in_flight=IN_FLIGHT),
        "round": t.FedAvg(t.Nice(COHORT), LR, STEPS),
    }
    problems = {"few": equal_clients(FEW, **SMALL), "many": equal_clients(MANY, **SMALL)}
    sides = {
        f"{what}, {side}": runner(algorithm, problem, EVENTS, devices)
        for what, algorithm in algorithms.items()
        for side, problem in problems.items()
    }
    taken = alternate(sides, 5)
    each = {side: median(times) / EVENTS * 1e6 for side, times in taken.items()}
    synchronous = ratio(taken, "round, many", "round, few")
    note = f"{each['event, many']:.0f} against {each['event, few']:.0f} microseconds; a synchronous round: {synchronous:.2f} x"
    settings = {"clients": [FEW, MANY], **SMALL, "cohort": COHORT, "in_flight": IN_FLIGHT, "steps": STEPS,
                "rounds": EVENTS, "precision": "single", "seeds": [SEED]}  # fmt: skip
    title = "an event of ten replies with 100,000 clients over one with 100"
    return Line(
        "asynchronous", title, ratio(taken, "event, many", "event, few"), 1.1, note=note, settings=settings, timings=taken
    )


def runner(algorithm, problem, rounds: int, devices):
    """Return a function that plays a run and returns its seconds, without those of the first row."""

    def run() -> float:
        options = {"rounds": rounds, "every": rounds, "seed": SEED, "metrics": ("value",), "precision": "single"}
        chunks = Session(algorithm, problem, devices=devices, **options).play()
        next(chunks)
        return seconds(lambda: list(chunks))

    return run
