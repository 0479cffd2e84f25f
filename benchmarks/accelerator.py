"""An accelerator: rounds against PyTorch on the same device, client by client, and for a convolutional network batched too."""

from statistics import median

import jax

from benchmarks import rounds
from benchmarks.data import equal_clients
from benchmarks.femnist import BATCH, CLASSES, LR, ROUNDS, ROWS, SIDE, Side
from benchmarks.timing import REPEATS, SEED, Line, alternate, ratio, seconds

NETWORKS = {"W3": {"clients": 100, "cohort": 10}, "cohort 100": {"clients": 1_000, "cohort": 100}}
BAR = 10.0
"""How many times faster than PyTorch client by client a compiled round is at least, but for W3, whose cohort is small."""

TORCH_ROUNDS = {"W1": 20, "W2": 4}
"""Rounds of one timing of PyTorch, which takes milliseconds for what takes microseconds."""


def measure() -> list[Line]:
    """Return how many times faster a compiled round is than PyTorch's, and what it needs of the device's memory."""
    if jax.default_backend() == "cpu":
        return [Line("accelerator", "rounds", None, note="JAX sees no accelerator")]
    lines = [line for name, sizes in NETWORKS.items() for line in network(name, **sizes)]
    return [*(logistic(name, **sizes) for name, sizes in rounds.WORKLOADS.items()), *lines]


def logistic(name: str, **sizes: int) -> Line:
    """Measure a round on one workload of the topic `rounds`."""
    from benchmarks.rounds_torch import played

    problem = equal_clients(sizes["clients"], sizes["rows"], sizes["width"])
    features, labels = rounds.per_client(problem)

    def ours() -> float:
        chunks = rounds.new_session(problem, sizes["cohort"], sizes["rounds"]).play()
        next(chunks)
        return seconds(lambda: list(chunks)) / sizes["rounds"]

    def bare() -> float:
        count = TORCH_ROUNDS[name]
        return played(features, labels, problem.mu, sizes["cohort"], count) / count

    taken = alternate({"bare": bare, "turnout": ours})
    each = {side: median(times) * 1e6 for side, times in taken.items()}
    settings = {**sizes, "steps": rounds.STEPS, "lr": rounds.LR, "seeds": [SEED], "device": jax.devices()[0].device_kind}
    note = f"{each['turnout']:.0f} against {each['bare']:.0f} microseconds a round"
    return Line("accelerator", f"{name}: speed over PyTorch, client by client", ratio(taken, "bare", "turnout"), BAR,
                at_least=True, note=note, settings=settings, timings=taken)  # fmt: skip


def network(name: str, clients: int, cohort: int) -> list[Line]:
    """Measure rounds of the network, all sides in turn."""
    sides = {side: Side(side, clients, cohort) for side in ("bare", "batched", "compiled", "mixed")}
    taken = alternate({side: process.play for side, process in sides.items()}, REPEATS)
    peaks = {side: process.close("device") for side, process in sides.items()}
    each = {side: median(times) / ROUNDS * 1e3 for side, times in taken.items()}
    settings = {"clients": clients, "cohort": cohort, "rows": ROWS, "side": SIDE, "classes": CLASSES, "batch": BATCH, "epochs": 1,
                "lr": LR, "rounds": ROUNDS, "seeds": [SEED], "device": jax.devices()[0].device_kind, "peaks": peaks}  # fmt: skip

    def line(mine: str, other: str, title: str, bar: float | None = None) -> Line:
        memory = f"{peaks[mine] / 2**20:.0f} against {peaks[other] / 2**20:.0f} MiB"
        note = f"{each[mine]:.2f} against {each[other]:.2f} ms a round; {memory}"
        return Line("accelerator", f"{name}: {title}", ratio(taken, other, mine), bar, at_least=True, note=note,
                    settings=settings, timings=taken)  # fmt: skip

    return [
        line("compiled", "bare", "speed over PyTorch, client by client", BAR if cohort == 100 else None),
        line("compiled", "batched", "speed over PyTorch, batched"),
        line("mixed", "compiled", "speed of half over single precision"),
    ]
