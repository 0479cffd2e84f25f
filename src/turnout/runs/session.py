"""One run, or all cells of a sweep, from its settings to its traces."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.accounting.ledger import Ledger
from turnout.accounting.target import Target
from turnout.client_solvers import LocalSolver
from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.core.seeds import Seeds
from turnout.engines.compiled import PLACES, Compiled, survey
from turnout.engines.faults import Faults
from turnout.engines.inputs import Aggregation, Job
from turnout.engines.metrics import DIVERGED, HELD_OUT, NAMES, SAMPLING, TEST
from turnout.engines.nodes import Nodes
from turnout.engines.reply_usage import weights_of
from turnout.engines.state import Progress
from turnout.engines.sweep import Swept
from turnout.io.models import initial_parameters
from turnout.optimisers.schedules import Schedule
from turnout.privacy.mechanism import Privacy
from turnout.problems.base import Precision, Problem
from turnout.problems.optimum import Optimum, solve
from turnout.problems.storage.jax_client import on_cpu
from turnout.problems.storage.layout import store
from turnout.runs.trace import Trace
from turnout.samplers.base import Sampler, samplers_in
from turnout.solvers import CohortSolver

CHUNK_SECONDS = 1.0
"""How long a chunk of rounds should take: what a kill can lose, and how often progress is shown."""

MEMORY = 256 * 2**20
"""Bytes of client data that one exchange works on at a time, unless a run says otherwise."""


class Cell(NamedTuple):
    """One cell of a sweep: the hyper-parameters it sets, by dotted name, and its seed."""

    settings: dict[str, float]
    seed: int


class Session:
    """One run, or all cells of a sweep, chunk by chunk: between chunks it can be watched, saved and left."""

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        *,
        seeds: Seeds,
        rounds: int,
        every: int = 1,
        target: Target | None = None,
        metrics: tuple[str, ...] | None = None,
        engine: str | Callable = "compiled",
        precision: Precision | None = None,
        aggregation: Aggregation = "plain",
        faults: Faults | None = None,
        privacy: Privacy | None = None,
        optimum: Optimum | None = None,
        test: Problem | None = None,
        held_out: Problem | None = None,
        memory: int = MEMORY,
        start: PyTree | Path | str | None = None,
        label: str = "run",
        cells: list[Cell] | None = None,
    ):
        if rounds < 0 or every < 1:
            raise UserError(f"rounds must not be negative and every at least 1, but they are {rounds} and {every}")
        if problem.remote and (engine == "compiled" or cells is not None):
            raise UserError("losses that are programs of the clients' own cannot be compiled: take engine 'nodes', or deploy")
        self.rounds, self.every, self.faults = rounds, every, faults
        self.precision: Precision = precision or problem.precision
        refuse_mixed(problem, self.precision)
        self.label, self.cells = label, cells
        self.metrics = wanted_metrics(problem, target, metrics, test, held_out)
        if optimum is None and {"gap", "distance"} & set(self.metrics):
            optimum = solve(problem)
        with scope(self.precision):
            algorithm = bind(algorithm, problem, rounds)
            judged = bool({*SAMPLING} & {*self.metrics})
            job = prepare(problem, seeds, faults, optimum, memory, test, judged, start, held_out, self.precision == "mixed")
            if target is not None and target.stop:
                job = replace(job, stop=target)
            if aggregation != "plain":
                self._refuse_sums(engine)
                job = replace(job, aggregation=aggregation)
            if privacy is not None:
                self._refuse_singles(job, algorithm, privacy)
                job = replace(job, protection=privacy.protection())
            if cells is not None:
                self.engine = Swept(job, algorithm, self.metrics, every, cells, min(self.rows, PLACES), start is None)
            else:
                made = {"compiled": Compiled, "nodes": partial(Nodes, problem)}.get(engine, engine)
                self.engine = made(job, algorithm, self.metrics, every)
            self.progress: Progress = self.engine.begin()
        names = [label] if cells is None else [cell_name(cell) for cell in cells]
        self.traces = [Trace(self.engine.sites, label=name, target=target) for name in names]
        self._written = 0

    @property
    def trace(self) -> Trace:
        """The trace of the run; of a sweep, that of its first cell."""
        return self.traces[0]

    @property
    def round(self) -> int:
        """Rounds played so far."""
        return int(np.max(self.progress.round))

    @property
    def rows(self) -> int:
        """Trace rows of the whole run: one before the first round, then one every `every` rounds and at the end."""
        return 1 + -(-self.rounds // self.every)

    def play(self) -> Iterator["Session"]:
        """Play to the end, yielding after each chunk."""
        many = 1
        while self._written < self.rows and not all(trace.over for trace in self.traces):
            # The first row looks at the start, before any round is played.
            limit = self.rounds if self._written else 0
            many = min(many, PLACES, self.rows - self._written) if self._written else 1
            began = time.perf_counter()
            with scope(self.precision):
                self.progress, table = self.engine.advance(self.progress, limit, many)
            self._keep(table, many)
            yield self
            spent = time.perf_counter() - began
            many = many * 2 if spent < CHUNK_SECONDS / 2 else max(1, many // 2) if spent > 2 * CHUNK_SECONDS else many

    def run(self) -> "Session":
        """Play to the end."""
        for _ in self.play():
            pass
        return self

    def snapshot(self) -> dict:
        """Return all that `restore` needs to go on from here, as lists and dicts of arrays."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.progress)]
        return {
            "progress": leaves,
            "columns": [trace.columns for trace in self.traces],
            "written": np.array(self._written),
        }

    def restore(self, snapshot: dict) -> None:
        """Go on from where `snapshot` was taken of a session with the same settings."""
        old, structure = jax.tree.flatten(self.progress)
        new = snapshot["progress"]
        if [(a.shape, a.dtype) for a in old] != [(a.shape, a.dtype) for a in new]:
            raise UserError("the checkpoint holds a run of another shape or precision: start anew in another folder")
        with scope(self.precision):
            self.progress = jax.tree.unflatten(structure, [jnp.array(leaf) for leaf in new])
        self._written = int(snapshot["written"])
        for trace, columns in zip(self.traces, snapshot["columns"], strict=True):
            trace.columns = columns
        self._mark_models()

    def _refuse_sums(self, engine: str | Callable) -> None:
        """Raise `UserError` where replies are not messages, or are looked at to judge the draws."""
        if self.cells is not None or engine == "compiled":
            raise UserError(
                "aggregation 'sum' is about what clients send, but the compiled engine sends nothing: set engine = 'nodes', or "
                "use turnout deploy"
            )
        self._refuse_judging()

    def _refuse_judging(self) -> None:
        judging = [name for name in self.metrics if name in SAMPLING]
        if judging:
            raise UserError(f"metric {judging[0]!r} looks at each client's reply: leave it out, or do without what hides these")

    def _refuse_singles(self, job: Job, algorithm: Algorithm, privacy: Privacy) -> None:
        """Raise `UserError` where the noise on a sum would not hide a reply, or not be what it is taken for."""
        if self.cells is not None:
            raise UserError("[privacy] does not go with a sweep, each cell of which looks at the data: play one run")
        self._refuse_judging()
        if any(sampler.consults_before_draw and not sampler.is_charged for sampler in samplers_in(algorithm)):
            raise UserError(
                "[privacy] counts what clients are asked, but the sampler asks them for free: take one that is charged"
            )
        if privacy.model == "central":
            traced = survey(job, algorithm)
            weights_of(traced.found.values(), traced.uses, type(algorithm).__name__, "[privacy] model = 'local'")

    def _keep(self, table: dict[str, np.ndarray], many: int) -> None:
        """Add the rows of a chunk to the traces, each up to where its run diverged; refuse silent losses."""
        self._written += many
        self._mark_models()
        for k, trace in enumerate(self.traces):
            rows = table if self.cells is None else {name: column[k] for name, column in table.items()}
            if trace.diverged is not None:
                rows = {name: column[rows["round"] < trace.diverged] for name, column in rows.items()}
            if trace.met is not None:
                # What is played on for other cells repeats the last row.
                new = rows["round"] > (trace.columns["round"][-1] if len(trace) else -1)
                rows = {name: column[new][: 1 + np.searchsorted(rows["round"][new], trace.met)] for name, column in rows.items()}
            trace.extend(rows)
            if not len(trace):
                raise UserError(f"the loss of the first parameters is not below {DIVERGED:.0e}: scale the data")
            self._refuse_counts(trace.ledger)

    def _mark_models(self) -> None:
        """Hand the last good parameters, and the round that ended the run early if there is one, to the traces."""
        good = jax.tree.map(np.asarray, self.progress.good)
        for k, trace in enumerate(self.traces):
            failed, met = (int(np.atleast_1d(end)[k]) for end in (self.progress.failed, self.progress.met))
            trace.diverged, trace.met = (None if end < 0 else end for end in (failed, met))
            trace.x = good if self.cells is None else jax.tree.map(lambda leaf, k=k: leaf[k], good)

    def _refuse_counts(self, ledger: Ledger) -> None:
        totals = ledger.totals()
        invalid = sum(row["unusable"] for row in ledger.rows() if row["method"] == "draw")
        if invalid:
            raise UserError(
                f"{invalid} places of cohorts by round {self.round} had a client that does not exist or was drawn twice, or a "
                "probability outside (0, 1]: correct the sampler's draw"
            )
        if totals["unusable"]:
            raise UserError(
                f"{totals['unusable']} feedbacks to the sampler by round {self.round} were negative, NaN or infinite, and taught "
                "it nothing: give ask.observe finite numbers of at least 0"
            )
        if totals["missed"]:
            raise UserError(
                f"{totals['missed']} local problems by round {self.round} were not solved as well as wanted: give the local "
                "solver more steps, or a larger delta"
            )
        if totals["lost"]:
            raise UserError(
                f"{totals['lost']} drawn clients did not fit into a cohort's places: give the sampler a larger capacity"
            )
        if (self.faults is None or self.faults.missing == "raise") and totals["arrivals"] < totals["contacts"]:
            missing = totals["contacts"] - totals["arrivals"]
            raise UserError(f"{missing} replies were lost by round {self.round}: set missing to 'skip' or 'repeat' to go on")


@contextmanager
def scope(precision: Precision):
    """Compute in 64 or 32 bits inside."""
    with jax.enable_x64(precision == "double"):
        yield


def refuse_mixed(problem: Problem, precision: Precision) -> None:
    """Raise `UserError` where clients compute in types of their own."""
    if precision == "mixed" and problem.remote:
        raise UserError("precision 'mixed' is about losses written in JAX, but these clients compute their own: take 'single'")


def prepare(
    problem: Problem, seeds: Seeds, faults, optimum, memory: int = MEMORY, test=None, judged: bool = False, start=None,
    held_out=None, mixed: bool = False,
) -> Job:  # fmt: skip
    """Put `problem` and all that an engine needs where it computes, in the precision in force.

    The first parameters are those that `start` gives, itself or as a file, or else the problem's. If `mixed` clients compute in
    bfloat16.
    """
    kind = jnp.result_type(float)
    storage = store(problem, mixed)
    per_client = storage.bytes_per_client()
    if not on_cpu():
        per_client += 2 * problem.activation_bytes * min(int(problem.sizes.max()), problem.rows_at_once)
    own = problem.start(jax.random.key(seeds.model))
    job = Job(
        storage=storage,
        start=finite(own) if start is None else initial_parameters(start, own),
        seeds=seeds,
        faults=faults,
        optimum=optimum,
        test=None if test is None else store(test),
        held_out=None if held_out is None else store(pooled(held_out)),
        chunk=max(1, memory // per_client) if per_client else problem.clients,
        judged=judged,
    )
    return jax.tree.map(lambda a: jnp.asarray(a, kind if jnp.issubdtype(jnp.result_type(a), jnp.floating) else None), job)


def finite(start: PyTree) -> PyTree:
    """Return first parameters as they are; `UserError` where one is NaN or infinite."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(start):
        if not np.all(np.isfinite(leaf)):
            raise UserError(f"the first parameters{jax.tree_util.keystr(path)} hold NaN or infinity: start from finite numbers")
    return start


def bind(node: Any, problem: Problem, rounds: int = 1) -> Any:
    """Fit the samplers, schedules and solvers that the record `node` holds to `problem` and a run of `rounds` rounds."""
    if isinstance(node, Sampler):
        return node.fit(problem).for_rounds(rounds)
    if isinstance(node, Schedule):
        return node.for_rounds(rounds)
    if isinstance(node, (CohortSolver, LocalSolver)):
        return node.bind(problem)
    if not is_dataclass(node):
        return node
    node = replace(node, **{f.name: bind(getattr(node, f.name), problem, rounds) for f in fields(node) if f.init})
    return node.bind(problem) if isinstance(node, Algorithm) else node


def pooled(problem: Problem) -> Problem:
    """Return `problem` with clients weighted by their rows, so that f is the mean over the union of these."""
    return replace(problem, population=replace(problem.population, weights=problem.sizes / problem.sizes.sum()))


def wanted_metrics(
    problem: Problem, target: Target | None, metrics: tuple[str, ...] | None, test=None, held_out=None
) -> tuple[str, ...]:
    """Return the names of the metrics to evaluate, in the order of `metrics.NAMES`."""
    if metrics is None:
        told = ("value", "accuracy") if problem.classifies else ("value",)
        further = {"test": test, "held_out": held_out}
        metrics = (*told, *(f"{where}_{name}" for where, rows in further.items() if rows is not None for name in told))
    wanted = {*metrics, *([target.metric] if target else [])}
    if not wanted:
        raise UserError(f"a run needs at least one metric: choose among {', '.join(NAMES)}")
    unknown = wanted - set(NAMES)
    if unknown:
        raise UserError(f"unknown metric {min(unknown)!r}: known are {', '.join(NAMES)}")
    if wanted & {*TEST} and test is None:
        raise UserError(f"metric {min(wanted & {*TEST})!r} needs rows to test with: give a test problem, or [problem] test")
    if wanted & {*HELD_OUT} and held_out is None:
        raise UserError(f"metric {min(wanted & {*HELD_OUT})!r} needs clients that are held out: give [problem] held_out")
    if any("accuracy" in name for name in wanted) and not problem.classifies:
        raise UserError(f"{type(problem).__name__} does not classify, so it has no accuracy: take another metric")
    return tuple(name for name in NAMES if name in wanted)


def cell_name(cell: Cell) -> str:
    """Write a cell's settings and seed as "gamma=10 inner=3 seed=0"."""
    return " ".join([*(f"{name}={value:g}" for name, value in cell.settings.items()), f"seed={cell.seed}"])
