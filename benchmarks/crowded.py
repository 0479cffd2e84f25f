"""What second-order methods do beside other programs: eigendecompositions, where all processors are busy already."""

import os
import subprocess
import sys
from contextlib import ExitStack

from benchmarks.timing import SEED, Line, alternate, ratio

COUNT, WIDTH, TIMES = 20, 123, 3
SPINNING = {"OPENBLAS_THREAD_TIMEOUT": "26"}
"""What OpenBLAS does by itself: threads spin for 2^26 cycles."""

PLAY = f"""
import time
import turnout
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
made = np.random.default_rng({SEED}).normal(size=({COUNT}, {WIDTH}, {WIDTH}))
program, matrices = jax.jit(lambda all: jax.lax.map(jax.numpy.linalg.eigh, all)), made + made.swapaxes(1, 2)
jax.block_until_ready(program(matrices))
began = time.perf_counter()
for _ in range({TIMES}):
    jax.block_until_ready(program(matrices))
print((time.perf_counter() - began) / {TIMES})
"""


def measure() -> list[Line]:
    """Return how many times faster eigendecompositions are with turnout's setting of OpenBLAS, alone and where others compute."""
    return [line("alone", 0), line("beside a busy program on each processor", os.cpu_count() or 1)]


def line(where: str, busy: int) -> Line:
    """Return the line of processes beside so many `busy` ones."""
    with ExitStack() as stack:
        for _ in range(busy):
            other = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(other.kill)
        taken = alternate({"spin": lambda: played(SPINNING), "sleep": lambda: played({})}, warm=False)
    note = f"{COUNT} of {WIDTH} x {WIDTH} numbers"
    return Line("crowded", f"eigendecompositions whose threads spin over turnout's, {where}", ratio(taken, "spin", "sleep"),
                note=note, timings=taken)  # fmt: skip


def played(environment: dict[str, str]) -> float:
    """Return the seconds of all eigendecompositions in a process of its own."""
    command = [sys.executable, "-c", PLAY]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment).stdout)
