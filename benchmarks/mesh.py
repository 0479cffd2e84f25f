"""Processes that play one run together: what two save of the time of one, what four need of its memory, how even the work is."""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.femnist import BATCH, CLIENTS, COHORT, LR, ROUNDS, compiled
from benchmarks.memory import peak_bytes
from benchmarks.timing import REPEATS, SEED, Line, alternate, ratio
from turnout.io.ports import free_port

LARGE = {"clients": 1000, "rows": 500, "width": 1000}
"""Clients whose rows take 2 GB in single precision."""

DRAWS = {"clients": 1024, "devices": 8, "cohort": 64, "draws": 10_000}


def measure() -> list[Line]:
    """Return the time of two processes over that of one, the memory of four over that of one, and the balance of cohorts."""
    return [work(), memory(), *balance()]


def work() -> Line:
    """Measure rounds of a convolutional network by one process and by two, each on a core of its own."""
    sides = {count: Peers(count, "work") for count in (1, 2)}
    taken = alternate({str(count): side.play for count, side in sides.items()}, REPEATS)
    for side in sides.values():
        side.close()
    each = {side: median(times) / ROUNDS for side, times in taken.items()}
    settings = {"clients": CLIENTS, "cohort": COHORT, "batch": BATCH, "epochs": 1, "lr": LR, "rounds": ROUNDS, "seeds": [SEED]}
    most = limit(CLIENTS, COHORT, 2)
    note = f"{each['1']:.2f} against {each['2']:.2f} seconds a round; at most {most:.2f} in the mean over cohorts"
    return Line("mesh", "W3: speed of two processes, one core each, over that of one", ratio(taken, "1", "2"), 1.6, at_least=True,
                note=note, settings=settings, timings=taken)  # fmt: skip


def limit(clients: int, cohort: int, devices: int) -> float:
    """Return the size of a cohort over the mean of the largest part that a device has: the most that devices can save."""
    return cohort / float(largest_parts(clients, cohort, devices).mean())


def largest_parts(clients: int, cohort: int, devices: int) -> np.ndarray:
    """Return how many clients of each of several uniform cohorts the device with the most of them has [draws]."""
    owned = [clients // devices] * devices
    return np.random.default_rng(SEED).multivariate_hypergeometric(owned, cohort, size=DRAWS["draws"]).max(axis=1)


def memory() -> Line:
    """Measure the peak memory of one process and of four, whose data are in a file."""
    with tempfile.TemporaryDirectory(prefix="turnout-") as folder:
        write_rows(Path(folder) / "rows.npy")
        peaks = {}
        for count in (1, 4):
            side = Peers(count, "memory", folder)
            side.play()
            peaks[count] = side.close()
    size = 4 * math.prod(LARGE.values())
    note = f"{max(peaks[4]) / 2**20:.0f} against {max(peaks[1]) / 2**20:.0f} MiB for {size / 2**20:.0f} MiB of data"
    return Line("mesh", "largest memory of four processes over that of one", max(peaks[4]) / max(peaks[1]), 0.35, note=note,
                settings={**LARGE, "peaks": peaks, "seeds": [SEED]})  # fmt: skip


def balance() -> list[Line]:
    """Return how many clients of a cohort the device with the most of them has, in the mean and at worst.

    A device has h clients of a cohort with the hypergeometric probability C(n / D, h) C(n - n / D, m - h) / C(n, m).
    """
    # Peers, whose memory is measured, need none of it.
    from scipy.stats import hypergeom

    clients, devices, cohort, draws = (DRAWS[name] for name in ("clients", "devices", "cohort", "draws"))
    owned, even = clients // devices, cohort // devices
    counts = largest_parts(clients, cohort, devices)
    rare = int(hypergeom(clients, owned, cohort).isf(1 / (devices * draws)))
    note = f"{even} are an even part; by the law one device of {devices} has more than {rare} once in {draws} cohorts"
    return [
        Line("mesh", f"most places of a device, cohorts of {cohort} over {devices}, {what}", value, unit="places", note=note,
             settings={**DRAWS, "seeds": [SEED]})
        for what, value in (("mean", float(counts.mean())), ("worst", float(counts.max())))
    ]  # fmt: skip


class Peers:
    """Processes that play rounds together when told, the k-th on core k."""

    def __init__(self, count: int, *doing: str):
        command = [sys.executable, "-m", "benchmarks.mesh", f"127.0.0.1:{free_port()}", str(count)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.processes = [subprocess.Popen([*command, str(number), *doing], **pipes) for number in range(count)]
        self._read()

    def play(self) -> float:
        """Return the seconds that some rounds took in the slowest process."""
        return max(self._ask("play"))

    def close(self) -> list[int]:
        """End the processes, and return their peak memory in bytes."""
        peaks = self._ask("end")
        for process in self.processes:
            process.communicate()
        return [int(peak) for peak in peaks]

    def _ask(self, what: str) -> list[float]:
        for process in self.processes:
            process.stdin.write(what + "\n")
            process.stdin.flush()
        return self._read()

    def _read(self) -> list[float]:
        return [next(json.loads(line[1:]) for line in process.stdout if line.startswith("=")) for process in self.processes]


def write_rows(file: Path) -> None:
    """Write the features of all clients, client by client."""
    rows = np.lib.format.open_memmap(file, "w+", np.float32, (LARGE["clients"] * LARGE["rows"], LARGE["width"]))
    generator = np.random.default_rng(SEED)
    for first in range(0, len(rows), 10_000):
        rows[first : first + 10_000] = generator.standard_normal((10_000, LARGE["width"]), dtype=np.float32)
    rows.flush()


def large(folder: str) -> Callable[[], float]:
    """Return what plays two rounds on the rows in a folder."""
    import turnout as t

    features = np.load(Path(folder) / "rows.npy", mmap_mode="r")
    labels = np.sign(np.random.default_rng(SEED).standard_normal(len(features))).astype(np.float32)
    offsets = np.arange(LARGE["clients"] + 1) * LARGE["rows"]
    problem = t.Logistic((features, labels), offsets, t.Population(count=LARGE["clients"]), mu=0.1)

    def play() -> float:
        t.run(t.FedAvg(t.Nice(64), lr=0.1, steps=2), problem, rounds=2, precision="single")
        return 0.0

    return play


def peer(address: str, count: int, number: int, doing: str, *options: str) -> None:
    """Be one of several processes, and do what the first line of the input says."""
    if doing == "work":
        os.sched_setaffinity(0, {number % os.cpu_count()})
    import jax

    if count > 1:
        jax.distributed.initialize(address, count, number)
    play = compiled()[0] if doing == "work" else large(*options)
    print("=0", flush=True)
    for line in sys.stdin:
        print(f"={json.dumps(play() if line.strip() == 'play' else peak_bytes())}", flush=True)
        if line.strip() == "end":
            return


if __name__ == "__main__":
    address, count, number, *doing = sys.argv[1:]
    peer(address, int(count), int(number), *doing)
