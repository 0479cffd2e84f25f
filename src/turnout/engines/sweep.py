"""A sweep as one compiled program: each cell is a run of the compiled engine with its own hyper-parameters and seed."""

from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jaxtyping import PyTree

from turnout.core.backend import on_cpu
from turnout.core.compiling import program
from turnout.core.errors import UserError, unknown
from turnout.engines.base import Engine
from turnout.engines.cells_over_devices import everywhere, over_devices
from turnout.engines.compiled import advance
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.groups.grouped_algorithm import for_cell
from turnout.engines.inputs import Job
from turnout.engines.reply_usage import survey
from turnout.engines.state import Progress, begin
from turnout.problems.base import Problem
from turnout.problems.grouped import Grouped, ungrouped

BATCH = 64
"""Cells that an accelerator computes at once. On a CPU it is one: in a batch, cells with fewer steps wait for the others."""


class SweepEngine(Engine):
    """Plays all cells of a sweep; its progress and tables have the cells as leading axis.

    Args:
        job: Inputs of the runs.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics in a trace row.
        every: Rounds between two trace rows.
        cells: Settings and seed of each run.
        places: Trace rows that one call of the compiled program can write.
        drawn: Whether the seed of each cell draws its initial parameters; else they are those of `job`.
        quick: Whether the programs are made to compile quickly and run more slowly, which only a CPU can do.
        mesh: Devices that share the cells; None for one device.
    """

    def __init__(
        self,
        job: Job,
        algorithm,
        metrics: tuple[str, ...],
        every: int,
        cells: list,
        places: int,
        *,
        drawn: bool,
        quick: bool = False,
        mesh: Mesh | None = None,
    ):
        self.metrics, self.every, self.places, self.quick = metrics, every, places, quick and on_cpu()
        problem = job.storage.problem
        begun = [begin_of(problem, jax.random.key(cell.seed)) if drawn else (job.start, job.others) for cell in cells]
        self.cell_others = [others for _, others in begun]
        algorithms = [
            for_cell(set_leaves(algorithm, cell.settings), others) for cell, others in zip(cells, self.cell_others, strict=True)
        ]
        structures = {jax.tree.structure(one) for one in algorithms}
        if len(structures) > 1:
            raise UserError("a sweep changes numbers, not what an algorithm is made of")
        self.job, self.algorithm, self.structure = job, algorithm, structures.pop()
        columns = list(zip(*(jax.tree.leaves(one) for one in algorithms), strict=True))
        self.swept = tuple(k for k, column in enumerate(columns) if any(leaf is not column[0] for leaf in column))
        self.leaves = [jnp.stack([jnp.asarray(a) for a in c]) if k in self.swept else c[0] for k, c in enumerate(columns)]
        seeds = jnp.array([cell.seed for cell in cells])
        self.seeds = jax.tree.map(lambda _: seeds, job.seeds)
        self.starts = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(strongly_typed(start) for start, _ in begun))
        self.sites = survey(job, algorithm).sites
        self.mesh = mesh
        self._everywhere = None if mesh is None else everywhere((job, self.leaves), mesh)

    def begin(self) -> Progress:
        """Return every cell's state before the first round."""
        if self.mesh is not None:
            return over_devices(self.mesh, begin_cells, self._everywhere, self._cells(), sites=self.sites, **self._static())
        program = _begin_quickly if self.quick else _begin
        return program(self.job, self.leaves, self._cells(), sites=self.sites, **self._static())

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play until `rows` more trace rows of every cell are written or the round `limit` is reached."""
        cells = (*self._cells(), progress)
        options = {"sites": self.sites, "metrics": self.metrics, "places": self.places, **self._static()}
        if self.mesh is not None:
            rest = limit, rows, self.every
            progress, table = over_devices(self.mesh, advance_cells, self._everywhere, cells, rest, **options)
        else:
            program = _advance_quickly if self.quick else _advance
            progress, table = program(self.job, self.leaves, cells, limit, rows, self.every, **options)
        return progress, jax.tree.map(lambda column: np.asarray(column)[:, :rows], table)

    def cell(self, k: int) -> "SweepEngine":
        """Return the engine of the cell `k` alone; all cells share one program."""
        one = copy(self)
        one.mesh, one.cell_others = None, [self.cell_others[k]]
        one.leaves = [np.asarray(leaf)[k : k + 1] if j in self.swept else leaf for j, leaf in enumerate(self.leaves)]
        one.seeds, one.starts = jax.tree.map(lambda leaf: np.asarray(leaf)[k : k + 1], (self.seeds, self.starts))
        return one

    def others(self, k=0):
        return self.cell_others[k]

    def _cells(self) -> tuple:
        return [self.leaves[k] for k in self.swept], self.seeds, self.starts

    def _static(self) -> dict:
        return {"structure": self.structure, "swept": self.swept}


def begin_of(problem: Problem, key) -> tuple[PyTree, dict]:
    """Return the initial parameters of a cell, and the other leaves of its model, by name.

    Args:
        problem: The problem.
        key: Random key of the initial parameters.
    """
    if not isinstance(problem, Grouped):
        return problem.start(key), {}
    return jax.tree.map(jnp.asarray, problem.split(ungrouped(problem).start(key)))


def _cell(job: Job, leaves, swept, structure, values, seeds, start):
    """Return the job and the algorithm of one cell."""
    changed = dict(zip(swept, values, strict=True))
    algorithm = jax.tree.unflatten(structure, [changed.get(k, leaf) for k, leaf in enumerate(leaves)])
    return replace(job, seeds=seeds, start=start), algorithm


def begin_cells(job: Job, leaves, cells, *, sites, structure, swept) -> Progress:
    """Return the progress of all cells before the first round."""

    def one(cell):
        return begin(CompiledAsk, *_cell(job, leaves, swept, structure, *cell), sites)

    return lax.map(one, cells)


def advance_cells(job: Job, leaves, cells, limit, rows, every, *, structure, swept, **options):
    """Return the progress of all cells and their tables after some rows."""

    def one(cell):
        *cell, progress = cell
        return advance(*_cell(job, leaves, swept, structure, *cell), progress, limit, rows, every, **options)

    return lax.map(one, cells) if on_cpu() else in_batches(one, cells, BATCH)


_begin, _begin_quickly = (
    program(begin_cells, quick=quick, static_argnames=("sites", "structure", "swept")) for quick in (False, True)
)
_advance, _advance_quickly = (
    program(advance_cells, quick=quick, static_argnames=("sites", "metrics", "places", "structure", "swept"))
    for quick in (False, True)
)


def in_batches(one: Callable, cells: PyTree, size: int) -> PyTree:
    """Return `one` of each of the `cells`, computed `size` at a time.

    The program of a cell is traced in the precision in force and batched in 64 bits, where JAX keeps the types of draws
    (`turnout.samplers.in_double`).

    Args:
        one: Function of a cell.
        cells: Pytree of arrays with the cells as leading axis.
        size: Number of cells that are computed at once.
    """
    # Slow to import.
    from jax.extend.core import jaxpr_as_fun

    program, shapes = jax.make_jaxpr(one, return_shape=True)(jax.tree.map(lambda leaf: leaf[0], cells))
    with jax.enable_x64(True):
        leaves = lax.map(lambda leaves: jaxpr_as_fun(program)(*leaves), jax.tree.leaves(cells), batch_size=size)
    return jax.tree.unflatten(jax.tree.structure(shapes), leaves)


def set_leaves(node, settings: dict[str, float]):
    """Return the record `node` with the fields named "field" or "part.field" set."""
    for name, value in settings.items():
        node = _set(node, name.split("."), value, name)
    return node


def _set(node, path: list[str], value, name: str):
    wrapped, known = getattr(node, "wraps", None), {f.name: f for f in fields(node)} if is_dataclass(node) else {}
    # The fields of a wrapped algorithm are named as those of the record that holds it.
    if path[0] not in known and wrapped is not None:
        path = [wrapped, *path]
    if path[0] not in known:
        raise UserError(f"cannot sweep {name!r}: {unknown('field', path[0], known)}")
    field = known[path[0]]
    if len(path) > 1:
        return replace(node, **{path[0]: _set(getattr(node, path[0]), path[1:], value, name)})
    if field.metadata.get("static"):
        raise UserError(f"cannot sweep {name!r} in one program: it fixes a shape, so play one sweep for each of its values")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"cannot sweep {name!r}: its values must be numbers, but one is {value!r}")
    return replace(node, **{path[0]: value})
