"""Playing a sampler with all cohort sizes and seeds: compiled sweeps in, frames of all rounds out."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import cast

import jax
import numpy as np
import polars as pl

from turnout.accounting.counters import to_ledger
from turnout.core.seeds import Seeds
from turnout.experiment.build import Built
from turnout.reproduce.sampling.paper import Contender
from turnout.reproduce.store import Frames
from turnout.runs.session import Session
from turnout.runs.sweep import Cell, cells_of
from turnout.samplers import Independent
from turnout.samplers.weighted import Weighted

SIZE = "sampler.size"
COUNTED = ("contacts", "bytes_down", "bytes_up")


@dataclass(frozen=True)
class Task:
    """One contender with all `seeds`, clients weighted by "size" or "uniform"; `judged` False leaves all metrics out."""

    contender: Contender
    seeds: list[int]
    weights: str = "size"
    judged: bool = True

    @property
    def label(self) -> str:
        weights = "" if self.weights == "size" else ", equal weights"
        return f"{self.contender.title}{weights}{'' if self.judged else ', without metrics'}"

    @property
    def stem(self) -> str:
        """What the files are called that are kept of it."""
        return f"{self.contender.name}-{self.weights}{'' if self.judged else '-plain'}"

    @property
    def runs(self) -> int:
        return len(self.contender.sizes) * len(self.seeds)


def sessions(task: Task, built: Built) -> Iterator[tuple[list[Cell], Session]]:
    """Yield a session with the cells of all sizes, or one for each size where it fixes a shape; and the cells."""
    contender, run = task.contender, task.contender.experiment.run
    sampler = told(contender, built) if contender.told else contender.sampler
    algorithm = replace(contender.experiment.algorithm, **{"sampler": sampler})
    shapes = {field.name for field in fields(type(sampler)) if field.metadata.get("static")}
    # A run without metrics looks once, at its end, so that it is the rounds that are timed.
    looks = {"metrics": tuple(run.metrics), "every": run.every}
    if not task.judged:
        looks = {"metrics": ("value",), "every": run.rounds}
    common = {"seeds": Seeds.of(0), "rounds": run.rounds, "test": built.test, **looks}
    if "size" not in shapes:
        cells = cells_of({SIZE: contender.sizes}, task.seeds)
        yield cells, Session(algorithm, built.problem, cells=cells, **common)
        return
    for size in contender.sizes:
        fixed = replace(algorithm, **{"sampler": replace(sampler, **{"size": size})})
        cells = cells_of({}, task.seeds)
        yield [Cell({SIZE: size}, cell.seed) for cell in cells], Session(fixed, built.problem, cells=cells, **common)


def told(contender: Contender, built: Built) -> Weighted:
    """Return the contender's sampler with the G that its rule finds once everyone took part in a round."""
    sampler, n = cast(Weighted, contender.sampler), built.problem.population.count
    everyone = replace(contender.experiment.algorithm, **{"sampler": Independent(size=n, probability=sampler.probability)})
    session = Session(everyone, built.problem, seeds=Seeds.of(0), rounds=1, every=1, metrics=("value",))
    (state,) = session.run().progress.samplers
    return replace(sampler, probability=replace(sampler.probability, bound=float(state.bound)))


def play(task: Task, built: Built, check: Callable[[], None]) -> Frames:
    """Play `task` and return three frames.

    "rounds" has a row for each size, seed and round looked at but the start, with the metrics; "totals" one for each size and
    seed, with what was sent in all and what is remembered between rounds (see `memory`); "programs" one for each program, with
    the seconds until it was compiled and from there to its end.
    """
    rounds, totals, programs = [], [], []
    for cells, session in _timed(task, built, check, programs):
        kept = memory(session)
        for cell, trace in zip(cells, session.traces, strict=True):
            mark = {"sampler": task.contender.name, "weights": task.weights, "size": int(cell.settings[SIZE]), "seed": cell.seed}
            sums = to_ledger(trace.sites, trace.columns["counts"][-1]).totals()
            totals.append({**mark, **{name: sums[name] for name in COUNTED}, **kept})
            columns = {name: values[1:] for name, values in trace.columns.items() if name != "counts"}
            rounds.append(pl.DataFrame(columns).select(*(pl.lit(value).alias(name) for name, value in mark.items()), "*"))
    return {"rounds": pl.concat(rounds), "totals": pl.DataFrame(totals), "programs": pl.DataFrame(programs)}


def _timed(task: Task, built: Built, check: Callable[[], None], programs: list[dict]) -> Iterator[tuple[list[Cell], Session]]:
    """Yield the sessions once they are played, and note their seconds."""
    began = time.perf_counter()
    for cells, session in sessions(task, built):
        played = session.play()
        # The first chunk plays no round.
        next(played)
        compiled = time.perf_counter()
        for _ in played:
            check()
        ended = time.perf_counter()
        programs.append({"cells": len(cells), "compiling": compiled - began, "playing": ended - compiled})
        yield cells, session
        began = time.perf_counter()


def memory(session: Session) -> dict[str, int]:
    """Return how many "scalars" the sampler keeps between rounds, and how many vectors as large as the model either side does.

    The model itself is not counted.
    """
    progress, many = session.progress, len(session.cells or [None])

    def numbers(tree) -> int:
        return sum(np.size(leaf) for leaf in jax.tree.leaves(tree)) // many

    d, states = numbers(progress.good), jax.tree.leaves(progress.samplers)
    large = [state for state in states if numbers(state) == d]
    return {
        "scalars": numbers(states) - d * len(large),
        "server_vectors": numbers(progress.server) // d - 1 + len(large),
        "client_vectors": numbers(progress.clients) // d,
    }
