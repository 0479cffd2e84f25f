"""A run compiles few programs, and a new hyper-parameter or seed none."""

from itertools import product

import jax

import turnout as t
from benchmarks.data import equal_clients
from benchmarks.timing import Line

GAMMAS, SEEDS = (0.5, 1.0, 2.0, 5.0, 10.0), (0, 1, 2)
EVENT = "/jax/core/compile/backend_compile_duration"


def measure() -> list[Line]:
    """Return how many programs are compiled in a first run, in one run after another and in a second sweep."""
    compiled: list[float] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compiled.append(duration) if event == EVENT else None
    )
    problem = equal_clients(clients=20, rows=10, width=8)
    cells = list(product(GAMMAS, SEEDS))

    def count(play) -> int:
        before = len(compiled)
        play()
        return len(compiled) - before

    first = count(lambda: one_run(problem, *cells[0]))
    later = sum(count(lambda cell=cell: one_run(problem, *cell)) for cell in cells[1:])
    first_sweep = count(lambda: one_sweep(problem, GAMMAS, SEEDS))
    later_sweep = count(lambda: one_sweep(problem, [2 * gamma for gamma in GAMMAS], [seed + 3 for seed in SEEDS]))
    settings, timings = {"gamma": GAMMAS, "seeds": SEEDS}, {"compilations": list(compiled)}
    return [
        Line("recompiles", "compilations in a first run", first, 4, unit="", settings=settings, timings=timings),
        Line("recompiles", f"compilations in {len(cells) - 1} more runs", later, 0, unit="", settings=settings, timings=timings),
        Line("recompiles", "compilations in a second sweep", later_sweep, 0, unit="",
             note=f"the first sweep compiled {first_sweep}", settings=settings, timings=timings),
    ]  # fmt: skip


def algorithm(gamma: float) -> t.Algorithm:
    """Return SPPM, whose gamma is a leaf."""
    return t.Sppm(t.Nice(5), t.solvers.Bfgs(smoothness=1.0, convexity=0.0), gamma=gamma, inner=3)


def one_run(problem, gamma: float, seed: int) -> None:
    """Play one run."""
    t.run(algorithm(gamma), problem, rounds=5, seed=seed)


def one_sweep(problem, gammas, seeds) -> None:
    """Play one sweep."""
    t.sweep(algorithm(gammas[0]), problem, {"gamma": gammas}, rounds=5, seeds=seeds, metrics=("value",))
