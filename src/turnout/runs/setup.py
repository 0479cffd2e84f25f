"""Setup of a run: the algorithm bound to the problem, the data placed for the engine, the metrics, and what is refused."""

from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree

from turnout.accounting.ledger import OTHERS
from turnout.client_solvers import LocalSolver
from turnout.core.algorithm import Algorithm
from turnout.core.backend import device_bytes, on_cpu
from turnout.core.debugging import without_compilation
from turnout.core.errors import UserError
from turnout.core.robust_means import RobustMean
from turnout.core.seeds import Seeds, host_key
from turnout.core.spare_memory import give_back_after_compiling
from turnout.core.tree import bytes_of, on_device
from turnout.devices import Devices, Fleet
from turnout.engines.coded_algorithm import coded
from turnout.engines.dual_gap import refuse_dual_gap
from turnout.engines.faults import Faults
from turnout.engines.inputs import SUMS, Job
from turnout.engines.metrics import SAMPLING
from turnout.engines.processes import agreed
from turnout.engines.reply_usage import survey
from turnout.engines.sweep import BATCH
from turnout.io.models import initial_parameters
from turnout.optimisers.schedules import Schedule
from turnout.problems.adapters.adapted import Adapted
from turnout.problems.aligned import aligned
from turnout.problems.base import Precision, Problem
from turnout.problems.grouped import Grouped, ungrouped
from turnout.problems.optimum import Optimum
from turnout.problems.storage.store import store
from turnout.problems.wrapped import bare
from turnout.runs.arguments import check_parts, check_seeds
from turnout.runs.disk import on_disk, refuse_disk, sample_of, sampled
from turnout.runs.hub_layout import layout_of, layout_of_processes, refuse_no_hubs
from turnout.runs.options import RunOptions
from turnout.runs.refusals import (
    refuse_coded,
    refuse_engine,
    refuse_mesh,
    refuse_metrics_of_replies,
    refuse_mixed,
    refuse_revealing,
    refuse_robust,
)
from turnout.runs.wanted_metrics import wanted_metrics
from turnout.samplers.base import Sampler, samplers_in
from turnout.solvers import CohortSolver

EXCHANGE_BYTES = 256 * 2**20
"""Bytes of client data that one exchange processes at a time on a CPU."""

LARGE = 256 * 2**20
"""Bytes of rows from which on a run gives back what compiling leaves: that takes milliseconds for each program."""


@contextmanager
def scope(precision: Precision, debug: bool = False):
    """Compute in 64 bits inside if `precision` is "double", else in 32; without compilation to `debug`."""
    with jax.enable_x64(precision == "double"), without_compilation(debug):
        yield


def bind(node: Any, problem: Problem, rounds: int = 1) -> Any:
    """Fit the samplers, schedules and solvers in the record `node` to `problem` and to a run of `rounds` rounds.

    Args:
        node: An algorithm, or a record within one.
        problem: The problem.
        rounds: Number of rounds of the run.
    """
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


class Fitted(NamedTuple):
    """An algorithm bound to a problem, the metrics of the run, and its precision."""

    algorithm: Algorithm
    metrics: tuple[str, ...]
    precision: Precision


def fit(algorithm: Algorithm, problem: Problem, options: RunOptions, *, compiled: bool, swept: bool = False) -> Fitted:
    """Bind an algorithm to a problem; `UserError` where options, algorithm and problem do not go together.

    Args:
        algorithm: The algorithm.
        problem: The problem.
        options: Options of the run.
        compiled: Whether the engine is the compiled one.
        swept: Whether it is a sweep.
    """
    check_parts(algorithm, problem, test=options.test, held_out=options.held_out)
    refuse_no_hubs(algorithm, options.hubs)
    precision = options.precision or problem.precision
    check_seeds(options.purpose_seeds(), precision)
    for part in (problem, options.test, options.held_out):
        refuse_engine(part, options.aggregation, compiled=compiled)
    refuse_mixed(problem, precision)
    refuse_mesh(options, compiled=compiled)
    refuse_disk(problem, options, swept=swept, meshed=compiled and not swept and devices_of(options) > 1)
    metrics = wanted_metrics(
        problem, options.target, options.metrics, options.test, options.held_out, sampled=sampled(problem, options)
    )
    refuse_dual_gap(algorithm, metrics, compiled=compiled and not on_disk(problem, options))
    with scope(precision):
        return Fitted(bind(algorithm, problem, options.rounds), metrics, precision)


def prepare(
    problem: Problem, seeds: Seeds, faults=None, optimum=None, memory: int | None = None, test=None, judged: bool = False,
    start=None, held_out=None, mixed: bool = False, apart: bool = False, fetch: bool = False,
    sample: Int[np.ndarray, " e"] | None = None,
) -> Job:  # fmt: skip
    """Place `problem` and all other inputs of an engine on the device, in the precision in force.

    Args:
        problem: Objective and clients.
        seeds: Seed of each purpose.
        faults: Simulated losses of replies.
        optimum: Minimiser and minimum of f, for the metrics that need them.
        memory: Bytes of client data that one exchange processes at a time; default: see `exchange_bytes`.
        test: Problem that holds the test rows.
        judged: Whether every exchange also computes all clients' replies, for the metrics of the sampler.
        start: Initial parameters, or the file of a saved model; default: the problem's.
        held_out: Problem whose clients are only evaluated.
        mixed: Whether clients compute in bfloat16.
        apart: Whether the clients' rows stay where they are, until each device of a mesh takes its own.
        fetch: Whether rows that are not in memory are read when they are needed.
        sample: Clients on which f is evaluated; None for all.
    """
    kind = jnp.result_type(float)
    if bytes_of(problem.rows) >= LARGE:
        give_back_after_compiling()
    storage = store(problem.without_clients(), mixed, fetch, sample)
    per_client = storage.bytes_per_client()
    if not on_cpu():
        per_client += 2 * problem.activation_bytes * min(int(problem.sizes.max()), problem.rows_at_once)
    first, others = starting(problem, seeds, start)
    job = Job(
        storage=storage,
        start=first,
        others=others,
        seeds=seeds,
        faults=faults,
        optimum=optimum,
        test=None if test is None else store(evaluated(test, problem, "test")),
        held_out=None if held_out is None else store(pooled(evaluated(held_out, problem, "held_out"))),
        chunk=max(1, (memory or exchange_bytes()) // per_client) if per_client else problem.clients,
        judged=judged,
    )

    def placed(path, leaf):
        if apart and path[0].name == "storage":
            return leaf
        return on_device(leaf, kind if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else None)

    return jax.tree_util.tree_map_with_path(placed, job)


def starting(problem: Problem, seeds: Seeds, start: PyTree) -> tuple[PyTree, dict[str, Any]]:
    """Return the initial parameters that an algorithm sees, and the other leaves of the model, by name.

    Args:
        problem: The problem.
        seeds: Seed of each purpose.
        start: Initial parameters of the whole model, with its adapters or none, or a file of them; None for the problem's.
    """
    whole = ungrouped(problem)
    default, drawn = whole.start(host_key(seeds.model)), whole.adapters if isinstance(whole, Adapted) else ()
    whole = finite(default) if start is None else initial_parameters(start, default, drawn)
    return problem.split(whole) if isinstance(problem, Grouped) else (whole, {})


def exchange_bytes(runs: int = 1) -> int:
    """Return how many bytes of client data one exchange processes at a time: a quarter of an accelerator's memory, else 256 MiB.

    Args:
        runs: How many runs of a sweep the accelerator may play at once, which share its memory.
    """
    known = device_bytes()
    return EXCHANGE_BYTES if known is None else known // 4 // min(runs, BATCH)


def inputs_of(
    algorithm: Algorithm,
    problem: Problem,
    options: RunOptions,
    precision: Precision,
    metrics: tuple[str, ...],
    optimum: Optimum | None,
    *,
    cells: int | None,
    deployed: bool = False,
) -> tuple[Job, Algorithm]:
    """Return the inputs of the engine, and the bound `algorithm` with its exchanges; `UserError` where an option does not fit.

    Args:
        algorithm: The algorithm, bound to the problem.
        problem: The problem.
        options: Options of the run.
        precision: Precision of the run.
        metrics: Names of the metrics.
        optimum: The minimiser, where metrics need it.
        cells: The number of runs of a sweep; None for a single run.
        deployed: Whether clients are nodes of a federation, whose clock is the real one.
    """
    judged, mixed, swept = bool({*SAMPLING} & {*metrics}), precision == "mixed", cells is not None
    memory = exchange_bytes(cells or 1) if options.memory == "auto" else options.memory
    job = prepare(
        problem, options.purpose_seeds(), options.faults, optimum, memory, options.test, judged, options.start,
        options.held_out, mixed, not (swept or deployed) and devices_of(options) > 1, on_disk(problem, options),
        sample_of(problem, options),
    )  # fmt: skip
    algorithm = coded(job, algorithm, options.exchange)
    refuse_coded(options)
    # The engine knows turnout's metrics alone.
    if options.target is not None and options.target.stop and options.target.metric in metrics:
        job = replace(job, stop=options.target)
    if options.aggregation != "plain":
        refuse_metrics_of_replies(metrics)
    if options.aggregation in SUMS and options.faults is not None and options.faults.bounds:
        how = options.aggregation
        raise UserError(f"[faults] norm and clip bound each reply, which aggregation = {how!r} hides: take 'plain'")
    if isinstance(options.aggregation, RobustMean):
        refuse_robust(job, algorithm, options.privacy)
        job = replace(job, robust=options.aggregation)
    else:
        job = replace(job, aggregation=options.aggregation)
    if options.devices is not None and not deployed:
        job = replace(job, fleet=fleet_of(options.devices, options.faults, problem))
        for site in survey(job, algorithm).sites:
            if site.method not in OTHERS:
                job.fleet.check_deadline(site.bytes_down, site.bytes_up, site.method)
    elif not deployed and any(sampler.needs_clock for sampler in samplers_in(algorithm)):
        raise UserError("the sampler needs a clock, and a run has one only with devices: give [devices], or a trace in rounds")
    if options.privacy is not None:
        refuse_revealing(job, algorithm, options.privacy, metrics, swept)
        protection = options.privacy.protection()
        protection = replace(protection, secret=agreed(protection.secret))
        job = replace(job, protection=protection, secret=agreed(options.privacy.secret()))
    if options.hubs is not None:
        if deployed:
            refuse_metrics_of_replies(metrics)
            layout = layout_of_processes(options.hubs, job, algorithm, options)
        else:
            layout = layout_of(options.hubs, job, algorithm)
        job = replace(job, hubs=layout)
    return job, algorithm


def devices_of(options: RunOptions) -> int:
    """Return over how many devices the compiled engine spreads the clients: of several processes over all that they have.

    Args:
        options: Options of the run.
    """
    if options.engine == "nodes":
        return 1
    return options.mesh if jax.process_count() == 1 else jax.device_count()


def fleet_of(devices: Devices, faults: Faults | None, problem: Problem) -> Fleet:
    """Return the devices of the clients of `problem`; `UserError` where what follows a late reply is not said.

    Args:
        devices: The devices.
        faults: What follows a lost reply.
        problem: The problem.
    """
    missing = "raise" if faults is None else faults.missing
    if devices.first is not None and missing != "skip":
        raise UserError("[devices] first goes on without the other replies: set [faults] missing = 'skip'")
    if devices.deadline is not None and missing == "repeat":
        raise UserError("a reply after [devices] deadline is as late the next time: set [faults] missing = 'skip'")
    return jax.tree.map(on_device, devices.bind(problem.clients))


def finite(start: PyTree) -> PyTree:
    """Return initial parameters as they are; `UserError` where one is NaN or infinite."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(start):
        if not np.all(np.isfinite(leaf)):
            raise UserError(f"the first parameters{jax.tree_util.keystr(path)} hold NaN or infinity: start from finite numbers")
    return start


def evaluated(part: Problem, problem: Problem, what: str) -> Problem:
    """Return a problem that evaluates a model as `problem` numbers classes and orders features, without its labels and names.

    Args:
        part: The problem.
        problem: The problem that trains the model.
        what: The name of the argument `part`.
    """
    part = alike(part, problem, what)
    return replace(problem.around(part) if isinstance(problem, Grouped) else part, schema=None)


def alike(part: Problem, problem: Problem, what: str) -> Problem:
    """Return a problem of the whole model that `problem` trains, which numbers classes and orders features in the same way.

    Args:
        part: The problem.
        problem: The problem that trains the model.
        what: The name of the argument `part`.
    """
    part = aligned(bare(part), bare(problem), what)
    return ungrouped(problem.around(part)) if isinstance(problem, Grouped) else part


def pooled(problem: Problem) -> Problem:
    """Return `problem` with clients weighted by their numbers of rows, so that f is the mean over all rows."""
    return replace(problem, population=replace(problem.population, weights=problem.sizes / problem.sizes.sum()))
