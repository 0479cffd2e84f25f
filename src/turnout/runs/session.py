"""One run, or all cells of a sweep, in chunks of rounds."""

import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.accounting.ledger import Ledger
from turnout.core.algorithm import Algorithm
from turnout.core.cohort import INVALID
from turnout.core.errors import UserError, caution
from turnout.core.host_calls import mistakes_told
from turnout.core.own_code import own_mistakes_told
from turnout.core.timing import part, timing
from turnout.engines.compiled import PLACES, Compiled
from turnout.engines.fetched import FetchedEngine
from turnout.engines.mesh import MeshEngine, mesh_of
from turnout.engines.messaging import MessageEngine
from turnout.engines.metrics import DIVERGED
from turnout.engines.nodes import Nodes
from turnout.engines.processes import agreed
from turnout.engines.state import Progress
from turnout.engines.sweep import SweepEngine
from turnout.problems.base import Problem
from turnout.problems.grouped import Grouped, ungrouped, with_groups
from turnout.problems.optimum import Optimum, solve
from turnout.runs.arguments import check_parts
from turnout.runs.clients_frame import clients_frame, confusion_frame
from turnout.runs.disk import on_disk, with_indexes
from turnout.runs.going_on import Played
from turnout.runs.group_checks import check_groups, tell_groups
from turnout.runs.hub_layout import with_hubs
from turnout.runs.options import RunOptions, with_settings
from turnout.runs.own_metrics import own_metrics
from turnout.runs.setup import alike, devices_of, fit, inputs_of, scope
from turnout.runs.sweep import Cell
from turnout.runs.trace import Trace

CHUNK_SECONDS = 1.0
"""Target duration of a chunk: the most that a kill can lose, and the time between two reports of progress."""


class Session:
    """One run, or all cells of a sweep, which can be watched, saved and stopped between chunks of rounds.

    Raises:
        UserError: If options, algorithm and problem do not go together.

    Args:
        algorithm: Algorithm to run.
        problem: Objective and clients.
        options: Options as a record; the keywords in `settings` replace its fields.
        deployed: A function (job, algorithm, metrics, every) that returns the engine; default: `options.engine`.
        optimum: Minimiser and minimum of f, where they are known; solved for if a metric needs them.
        label: Name of the run.
        cells: Cells of a sweep; default: one run.
        quick: Whether the program of a sweep is made to compile quickly, and runs more slowly: for short runs.
        folder: Where files of a run are kept that is to be resumed; None for a folder that lives as long as the session.
        settings: Fields of `RunOptions`.

    Examples:
        >>> import turnout as t
        >>> from turnout.runs.session import Session
        >>> session = Session(t.MbGd(t.Full(), lr=0.1), t.Quadratic.random(12, 5), rounds=3)
        >>> [chunk.round for chunk in session.play()][-1]
        3
    """

    @own_mistakes_told
    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        options: RunOptions | None = None,
        *,
        deployed: Callable | None = None,
        optimum: Optimum | None = None,
        label: str = "run",
        cells: list[Cell] | None = None,
        quick: bool = False,
        folder: Path | None = None,
        **settings,
    ):
        self.options = options = with_settings(options, settings)
        self.label, self.cells, self.deployed = label, cells, deployed is not None
        check_parts(algorithm, problem)
        problem = with_hubs(problem, options.hubs)
        problem = with_groups(problem, algorithm.model_groups, type(algorithm).__name__)
        self.own = own_metrics(options.metrics, None if options.target is None else options.target.metric)
        self.further = {"test": options.test, "held_out": options.held_out}
        for metric in self.own:
            metric.check(problem, self.further)
        compiled = cells is not None or (not self.deployed and options.engine == "compiled" and not options.debug)
        algorithm, self.metrics, self.precision = fit(algorithm, problem, options, compiled=compiled, swept=cells is not None)
        self.fitted = algorithm
        check_groups(algorithm, problem, options, self.metrics, deployed=self.deployed)
        tell_groups(algorithm, problem, options.rounds)
        # Now they are known to be problems. Rows that are aligned already stay as they are.
        self.further = {name: part and alike(part, problem, name) for name, part in self.further.items()}
        options = replace(options, **self.further)
        if self.deployed or on_disk(problem, options):
            self._indexes: list = []
            algorithm = with_indexes(algorithm, problem.population, self._indexes)
        self.algorithm, self.problem = algorithm, problem
        optimum = self._needed_optimum(optimum)
        with scope(self.precision, options.debug):
            how = {"cells": None if cells is None else len(cells), "deployed": self.deployed}
            job, algorithm = inputs_of(algorithm, problem, options, self.precision, self.metrics, optimum, **how)
            inputs = job, algorithm, self.metrics, options.every
            if cells is not None:
                drawn = options.start is None
                devices = devices_of(options)
                mesh = None if devices == 1 else mesh_of(devices)
                self.engine = SweepEngine(*inputs, cells, min(self.rows, PLACES), drawn=drawn, quick=quick, mesh=mesh)
            else:
                self.engine = (deployed or self._engine_of(problem, compiled, folder))(*inputs)
            with mistakes_told():
                self.progress: Progress = self.engine.begin()
        self.traces = [self._new_trace(name) for name in ([label] if cells is None else [cell.name for cell in cells])]
        self._written, self._seconds_of_metrics = 0, 0.0
        self._row_by_row = bool(self.own) or any(callback.each_row for callback in options.callbacks)

    def _needed_optimum(self, optimum: Optimum | None) -> Optimum | None:
        """Return the optimum that metrics need, as given or solved for; `UserError` for a distance from one of several."""
        if optimum is None and {"gap", "distance", "dual_gap"} & set(self.metrics):
            with part("optimum"):
                optimum = solve(self.problem)
        if optimum is not None and "distance" in self.metrics and not optimum.unique:
            raise UserError(
                f"{type(self.problem).__name__} is not known to have one minimiser, as metric 'distance' needs: take 'gap', or "
                "a problem with mu > 0"
            )
        return optimum

    def _new_trace(self, name: str) -> Trace:
        """Return a trace without rows, which knows how to evaluate the model of each client."""
        problem = ungrouped(self.problem)
        trace = Trace(self.engine.sites, label=name, target=self.options.target, schema=self.problem.schema)
        trace.each_client = partial(clients_frame, problem, self.precision)
        trace.each_row = partial(confusion_frame, self.further["test"] or problem, self.precision)
        if self.problem.remote:
            trace.whole = partial(self.engine.saved_model, problem)
        return trace

    def _engine_of(self, problem: Problem, compiled: bool, folder: Path | None) -> Callable:
        if not compiled:
            return partial(Nodes, problem)
        if on_disk(problem, self.options):
            return partial(FetchedEngine, folder)
        devices = devices_of(self.options)
        return Compiled if devices == 1 else partial(MeshEngine, mesh_of(devices))

    @property
    def _own_names(self) -> set[str]:
        """The names of the user's own metrics."""
        return {metric.name for metric in self.own}

    @property
    def trace(self) -> Trace:
        """The trace of the run; of a sweep, that of its first cell."""
        return self.traces[0]

    @property
    def rounds(self) -> int:
        """Number of rounds of the whole run."""
        return self.options.rounds

    @property
    def round(self) -> int:
        """Number of rounds completed."""
        return int(np.max(np.asarray(self.progress.round)))

    @property
    def rows(self) -> int:
        """Trace rows of the whole run: one before the first round, then one every `every` rounds and at the end."""
        return 1 + -(-self.rounds // self.options.every)

    @property
    def over(self) -> bool:
        """Whether no further round is to be played."""
        return self._written >= self.rows or all(trace.over for trace in self.traces)

    def play(self) -> Iterator["Session"]:
        """Run to the end, and yield after each chunk."""
        started = []
        try:
            for callback in self.options.callbacks:
                callback.on_start(self)
                started.append(callback)
            yield from self._chunks()
        finally:
            for callback in started:
                callback.on_end(self)

    def _chunks(self) -> Iterator["Session"]:
        """Play chunks whose length adapts to the time that they take, or single rows where a callback wants these."""
        rows = 1
        while not self.over:
            began = time.perf_counter()
            old = len(self.trace)
            rows = self.step(rows)
            self._call_back(old)
            yield self
            if self._row_by_row:
                continue
            seconds = time.perf_counter() - began
            rows = rows * 2 if seconds < CHUNK_SECONDS / 2 else max(1, rows // 2) if seconds > 2 * CHUNK_SECONDS else rows
            rows = int(agreed(rows))

    @own_mistakes_told
    def step(self, rows: int) -> int:
        """Play until `rows` more trace rows are written, or as many as one call can write, and return their number."""
        # The first row describes the start, before any round.
        limit = self.rounds if self._written else 0
        rows = min(rows, PLACES, self.rows - self._written) if self._written else 1
        with scope(self.precision, self.options.debug), mistakes_told(), part("rounds" if self._written else "metrics"):
            self.progress, table = self.engine.advance(self.progress, limit, rows)
        self._time_metrics(rows)
        self._written += rows
        self._extend_traces(table)
        return rows

    def _time_metrics(self, rows: int) -> None:
        """Tell the stopwatch, if there is one, what the metrics of `rows` took: each as long as those of the start."""
        watch = timing()
        if watch is None or isinstance(self.engine, MessageEngine):
            return
        if self._written:
            watch.move("rounds", "metrics", rows * self._seconds_of_metrics)
            return
        # No round is played, so that the progress stays as it is.
        with scope(self.precision), watch.part("metrics"):
            self.progress, _ = self.engine.advance(self.progress, 0, 1)
        self._seconds_of_metrics = watch.last

    def split(self) -> list["Session"]:
        """Return a session for each cell of a sweep, in the place of this one: each goes on by itself with the same program."""
        if not isinstance(self.engine, SweepEngine):
            raise UserError("a session without cells is one run: there is nothing to split")
        sessions, whole = [], jax.tree.map(np.asarray, self.progress)
        for k, cell in enumerate(self.cells or ()):
            one = copy(self)
            one.cells, one.traces, one.engine = [cell], [self.traces[k]], self.engine.cell(k)
            one.progress = jax.tree.map(lambda leaf, k=k: leaf[k : k + 1], whole)
            sessions.append(one)
        return sessions

    def _call_back(self, old: int) -> None:
        """Hand the rows after the first `old` to the callbacks, one of which may end the run."""
        if self.options.callbacks and len(self.trace) > old:
            rows = self.trace.frame_from(old)
            ends = [callback.on_rows(self, rows) for callback in self.options.callbacks]
            if agreed(any(ends)):
                self.trace.stopped = int(rows["round"][-1])

    def run(self) -> "Session":
        """Run to the end; a single run that diverged gives a `Caution`."""
        for _ in self.play():
            pass
        if self.cells is None and not on_disk(self.problem, self.options):
            # Without what may hold much memory.
            options = replace(self.options, test=None, held_out=None, callbacks=())
            self.trace.played = Played(options, self.fitted, self.snapshot())
        if self.cells is None and self.trace.diverged is not None:
            caution(f"{self.divergence()}: x has the parameters of round {self.trace.columns['round'][-1]}; {self.advice()}")
        return self

    def reopen(self) -> None:
        """Let a run that met its target go on; `UserError` where it would end at once, or has no further round."""
        target = self.options.target
        if self.trace.met is not None:
            if target is not None and target.stop:
                raise UserError(
                    f"the run met its target at round {self.trace.met}, which ends it: go on with stop = False, or another target"
                )
            with scope(self.precision):
                self.progress = self.progress._replace(met=jnp.full_like(self.progress.met, -1))
            self._update_ends()

    def divergence(self) -> str:
        """Say that the run diverged, and when."""
        return f"{self.label} diverged at round {self.trace.diverged}"

    def advice(self) -> str:
        """Say what to do about a run that diverged."""
        return self.engine.suspect() or "lower the step size"

    def snapshot(self) -> dict:
        """Return all that `restore` needs to continue from here, as lists and dicts of arrays."""
        return {
            "progress": jax.tree.leaves(self.engine.saved(self.progress)),
            "columns": [trace.columns for trace in self.traces],
            "written": np.array(self._written),
            # A run that goes on draws with the same secret.
            **({} if self.engine.job.secret is None else {"secret": np.asarray(self.engine.job.secret)}),
        }

    def restore(self, snapshot: dict) -> None:
        """Continue from a `snapshot` of a session with the same options."""
        old, structure = jax.tree.flatten(self.engine.saved(self.progress))
        new = snapshot["progress"]
        if [(a.shape, a.dtype) for a in old] != [(a.shape, a.dtype) for a in new]:
            raise UserError("the checkpoint holds a run of another shape or precision: start anew in another folder")
        with scope(self.precision):
            self.progress = self.engine.restored(jax.tree.unflatten(structure, new))
        if "secret" in snapshot:
            self.engine.job = replace(self.engine.job, secret=snapshot["secret"])
        self._written = int(snapshot["written"])
        for trace, columns in zip(self.traces, snapshot["columns"], strict=True):
            trace.columns = columns
        self._update_ends()

    def _extend_traces(self, table: dict[str, np.ndarray]) -> None:
        """Add the rows of a chunk to the traces, each up to the end of its run; refuse silent losses."""
        self._update_ends()
        for k, trace in enumerate(self.traces):
            rows = table if self.cells is None else {name: column[k] for name, column in table.items()}
            if trace.diverged is not None:
                rows = {name: column[rows["round"] < trace.diverged] for name, column in rows.items()}
            if trace.met is not None:
                # Once a cell has met its target, it repeats its last row until the others have ended.
                new = rows["round"] > (trace.columns["round"][-1] if len(trace) else -1)
                rows = {name: column[new][: 1 + np.searchsorted(rows["round"][new], trace.met)] for name, column in rows.items()}
            if self.own and len(rows["round"]):
                values = {
                    metric.name: metric.value(trace.x, ungrouped(self.problem), self.further, trace.own) for metric in self.own
                }
                rows |= {name: np.full(len(rows["round"]), value) for name, value in values.items()}
            trace.extend(rows)
            self._meet_own_target(trace)
            if not len(trace):
                raise UserError(f"the loss of the first parameters is not below {DIVERGED:.0e}: scale the data")
            self._refuse_losses(trace.ledger, self._in_flight(k))

    def _meet_own_target(self, trace: Trace) -> None:
        """End a run whose target is on a metric of the user's own, and is met."""
        target = self.options.target
        if target is not None and target.stop and target.metric in self._own_names and len(trace):
            hit = target.first_hit(trace.columns)
            trace.met = None if hit is None else int(trace.columns["round"][hit])

    def _update_ends(self) -> None:
        """Copy the last good parameters, and the round in which a run ended early, to the traces."""
        good = jax.tree.map(np.asarray, self.progress.good)
        for k, trace in enumerate(self.traces):
            failed, met = (int(np.atleast_1d(end)[k]) for end in (self.progress.failed, self.progress.met))
            trace.diverged, trace.met = (None if end < 0 else end for end in (failed, met))
            found = good if self.cells is None else jax.tree.map(lambda leaf, k=k: leaf[k], good)
            trace.x = self._whole(found, k)
            trace.own = self.engine.own_leaves(self.progress, self.problem) if self.cells is None else None

    def _whole(self, found: PyTree, k: int) -> PyTree:
        """Return the whole model of what a run has found, whose personal leaves are those of a new client."""
        if not isinstance(self.problem, Grouped):
            return found
        others = jax.tree.map(np.asarray, self.engine.others(k))
        return self.problem.whole({**others, **found})

    def _in_flight(self, k: int) -> int:
        """Return how many requests of the `k`-th cell are in flight."""
        flight = self.progress.flight
        return 0 if flight is None else int(np.sum(np.asarray(flight.cohort.active).reshape(len(self.traces), -1)[k]))

    def _refuse_losses(self, ledger: Ledger, in_flight: int) -> None:
        """Raise `UserError` where draws were invalid, or feedback, local solutions, clients or replies are missing."""
        totals = ledger.totals()
        invalid, sent = (
            {name: sum(row[name] for row in ledger.rows() if row["method"] == method) for name in ("unusable", "lost")}
            for method in ("draw", "send")
        )
        if sent["unusable"]:
            raise UserError(
                f"{sent['unusable']} requests by round {self.round} were sent to clients that have one in flight: draw them by a "
                "sampler of the algorithm"
            )
        if sent["lost"]:
            raise UserError(
                f"{sent['lost']} requests by round {self.round} found no place in flight: raise `places`, or send fewer"
            )
        invalid = invalid["unusable"]
        if invalid:
            raise UserError(f"{invalid} places of cohorts by round {self.round} {INVALID}")
        if totals["unusable"]:
            raise UserError(
                f"{totals['unusable']} feedbacks to the sampler by round {self.round} were negative, NaN or infinite, and were "
                "not used: give ask.observe finite numbers of at least 0"
            )
        if totals["missed"]:
            raise UserError(
                f"{totals['missed']} local problems by round {self.round} were not solved as well as wanted: "
                f"{self.algorithm.addressed.where_missed}"
            )
        if totals["lost"]:
            raise UserError(
                f"{totals['lost']} drawn clients did not fit into a cohort's places: give the sampler a larger capacity"
            )
        faults = self.options.faults
        if (faults is None or faults.missing == "raise") and totals["arrivals"] + in_flight < totals["contacts"]:
            missing = totals["contacts"] - totals["arrivals"] - in_flight
            refused = ", or longer than [faults] norm" if faults is not None and faults.norm is not None else ""
            devices = self.options.devices
            late = ", or later than [devices] deadline" if devices is not None and devices.deadline is not None else ""
            raise UserError(
                f"{missing} replies were lost by round {self.round}{refused}{late}: set missing to 'skip' or 'repeat' to go on"
            )
