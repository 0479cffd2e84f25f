"""How the compiled engine keeps all clients' rows: in equal blocks where sizes allow it, else end to end in tiles."""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.records import record, static
from turnout.problems.base import Problem, derivative, loss_sum
from turnout.problems.storage.bfloat16 import MixedPrecision
from turnout.problems.storage.jax_client import JaxOracle
from turnout.problems.storage.row_formats import is_sparse, row_count, take

MAX_PADDING = 1.75
"""Padded are used while padding every client to the largest needs at most so many times the rows there are."""


@record
class Padded:
    """Every client's rows padded to s: `problem.rows` holds arrays [n, s, ...], `weight` [n, s] is 1 / n_i or 0.

    `weight` is None where all sizes are equal: a constant 1 / s makes a faster program. With `mixed` clients compute in bfloat16.
    """

    problem: Problem
    weight: Float[Any, "n s"] | None
    row_share: Float[Any, " all_rows"]
    mixed: bool = static(default=False)

    def oracle(self, i: Int[Array, ""]):
        """Return client i's oracle."""
        return PaddedOracle(self, i)

    def flat(self) -> PyTree:
        """All rows [n s, ...], in the order of `row_share`."""
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.problem.rows)

    @property
    def bounds(self) -> Int[Array, " bounds"]:
        """Where each client's rows begin and end among all."""
        size = row_count(self.flat()) // self.problem.clients
        return jnp.arange(self.problem.clients + 1) * size

    def row_owners(self) -> tuple[Int[Array, " all_rows"], Float[Array, " all_rows"]]:
        """Return the client of each row, in the order of `row_share`, and its share of that client's rows."""
        n, size = jax.tree.leaves(self.problem.rows)[0].shape[:2]
        share = jnp.full((n, size), 1 / size) if self.weight is None else jnp.asarray(self.weight)
        return jnp.repeat(jnp.arange(n, dtype="int32"), size), share.ravel()

    def bytes_per_client(self) -> int:
        return sum(leaf.nbytes // leaf.shape[0] for leaf in jax.tree.leaves(self.problem.rows))


class PaddedOracle(JaxOracle):
    """f_i of one client of a `Padded`."""

    def __init__(self, blocks: Padded, i: Int[Array, ""]):
        self._blocks, self._i = blocks, i
        rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[i], blocks.problem.rows)
        size = row_count(rows)
        if blocks.weight is None:
            super().__init__(client_problem(blocks), rows, jnp.full(size, 1 / size), jnp.asarray(size, "int32"))
        else:
            weights = jnp.asarray(blocks.weight)[i]
            super().__init__(client_problem(blocks), rows, weights, jnp.sum(weights > 0, dtype="int32"))

    def at(self, numbers, weights):
        # From all clients' rows, so that this client's need not be copied first.
        rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[self._i, numbers], self._blocks.problem.rows)
        return JaxOracle(self._problem, rows, weights, jnp.sum(weights > 0, dtype="int32"), batch=True)


@record
class Ragged:
    """Rows end to end, without padding: client i owns rows `starts[i]` to `starts[i + 1]`.

    A cohort's rows are visited in tiles of `tile` rows of one client, `lanes` tiles at a time, so that the work is
    proportional to the cohort's own rows and the memory to one step. With `mixed` clients compute in bfloat16.
    """

    problem: Problem
    starts: Int[Any, " bounds"]
    row_share: Float[Any, " rows"]
    tile: int = static()
    lanes: int = static()
    mixed: bool = static(default=False)

    def oracle(self, i: Int[Array, ""]):
        """Return client i's oracle."""
        return RaggedOracle(self, i)

    def flat(self) -> PyTree:
        """All rows, in the order of `row_share`."""
        return self.problem.rows

    @property
    def bounds(self) -> Int[Array, " bounds"]:
        """Where each client's rows begin and end among all."""
        return jnp.asarray(self.starts)

    def row_owners(self) -> tuple[Int[Array, " rows"], Float[Array, " rows"]]:
        """Return the client of each row, in the order of `row_share`, and its share of that client's rows."""
        starts = jnp.asarray(self.starts)
        rows = jnp.arange(row_count(self.problem.rows), dtype=starts.dtype)
        client = jnp.searchsorted(starts, rows, side="right").astype("int32") - 1
        return client, 1 / jnp.diff(starts)[client].astype(jnp.result_type(float))

    def bytes_per_client(self) -> int:
        return 0


class RaggedOracle:
    """f_i of one client of a `Ragged`."""

    def __init__(self, tiles: Ragged, i: Int[Array, ""]):
        self._tiles, self._first = tiles, jnp.asarray(tiles.starts)[i]
        self._i = i
        self.size = (jnp.asarray(tiles.starts)[i + 1] - self._first).astype("int32")

    def __call__(self, order, x, *v):
        rest = derivative(order, self._tiles.problem.regulariser)(x, *v)
        return jax.tree.map(jnp.add, _tiled(order)(self._tiles, self._i, x, *v), rest)

    def at(self, numbers, weights) -> JaxOracle:
        """The sum over the rows `numbers` [b], counted with `weights` [b]; those of positive weight come first."""
        rows = take(self._tiles.problem.rows, self._first + numbers.astype(self._first.dtype))
        return JaxOracle(client_problem(self._tiles), rows, weights, jnp.sum(weights > 0, dtype="int32"), batch=True)


def client_problem(storage: Padded | Ragged) -> Problem | MixedPrecision:
    """Return whose losses clients compute."""
    return MixedPrecision(storage.problem) if storage.mixed else storage.problem


def store(problem: Problem, mixed: bool = False) -> Padded | Ragged:
    """Lay out the rows of `problem` for the compiled engine, in at most MAX_PADDING times their own size."""
    sizes, n = problem.sizes, problem.clients
    leaves = jax.tree.leaves(problem.rows, is_leaf=is_sparse)
    largest, rows = int(sizes.max()), int(sizes.sum())
    if n * largest > MAX_PADDING * rows or any(map(is_sparse, leaves)):
        tile = int(np.clip(2 ** np.ceil(np.log2(np.median(sizes))), 8, 256))
        # Where rows mix it matters which ones are together.
        tile = problem.rows_at_once if problem.mixes_rows else min(tile, problem.rows_at_once)
        starts = problem.offsets.astype(np.int32 if rows < 2**31 else np.int64)
        lanes = max(1, min(1024, problem.rows_at_once) // tile)
        return Ragged(problem, starts, problem.row_share, tile=tile, lanes=lanes, mixed=mixed)
    inside = np.arange(largest) < sizes[:, None]
    index = np.where(inside, problem.offsets[:-1, None] + np.arange(largest), 0)
    equal = bool(inside.all())
    blocks = jax.tree.map(lambda leaf: leaf.reshape(n, largest, *leaf.shape[1:]) if equal else leaf[index], problem.rows)
    share = np.zeros(inside.shape)
    share[inside] = problem.row_share
    weight = None if equal else inside / sizes[:, None]
    return Padded(replace(problem, rows=blocks), weight, share.ravel(), mixed)


def total(storage: Padded | Ragged, order: str, x: PyTree) -> Any:
    """The oracle `order` ("value", "value_and_grad") of sum_r row_share_r losses_r(x): f without its regulariser."""
    problem = storage.problem
    return sum_over_rows(storage, lambda rows, share: derivative(order, lambda y: loss_sum(problem, y, rows, share))(x))


def objective(storage: Padded | Ragged, order: str, x: PyTree) -> Any:
    """The oracle `order` ("value", "value_and_grad") of f."""
    return jax.tree.map(jnp.add, total(storage, order, x), derivative(order, storage.problem.regulariser)(x))


def sum_over_rows(storage: Padded | Ragged, part, share: PyTree = None) -> Any:
    """Sum `part(rows, share)` over all rows, at most `problem.rows_at_once` of them at a time; of one client where rows mix.

    `share` is row_share, or other arrays [rows].
    """
    rows, problem = storage.flat(), storage.problem
    share = jnp.asarray(storage.row_share) if share is None else share
    count = row_count(rows)
    if count <= problem.rows_at_once and not problem.mixes_rows:
        if not any(map(is_sparse, jax.tree.leaves(rows, is_leaf=is_sparse))):
            return part(rows, share)
    bounds = storage.bounds if problem.mixes_rows else jnp.array([0, count])
    size = problem.rows_at_once if problem.mixes_rows else -(-count // -(-count // problem.rows_at_once))
    parts = (bounds[1:] - bounds[:-1] + size - 1) // size
    ends = jnp.cumsum(parts, dtype=bounds.dtype)

    def step(k, sums):
        owner = jnp.searchsorted(ends, k, side="right")
        index = bounds[owner] + (k - (ends - parts)[owner]) * size + jnp.arange(size, dtype=bounds.dtype)
        inside, index = index < bounds[owner + 1], jnp.minimum(index, count - 1)
        weights = jax.tree.map(lambda a: jnp.where(inside, a[index], 0), share)
        return jax.tree.map(jnp.add, sums, part(take(rows, index), weights))

    first = jnp.arange(size)
    empty = jax.eval_shape(lambda: part(take(rows, first), jax.tree.map(lambda a: a[first], share)))
    return lax.fori_loop(0, ends[-1], step, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), empty))


@functools.cache
def _tiled(order: str):
    """Return the oracle `order` of one client of a `Ragged`, whose batching rule packs a whole cohort's tiles densely."""

    @custom_vmap
    def one(tiles, i, x, *v):
        return jax.tree.map(lambda a: a[0], _pack(order, tiles, *jax.tree.map(lambda a: a[None], (i, x, *v))))

    @one.def_vmap
    def rule(size, batched, tiles, *arguments):
        spread = jax.tree.map(
            lambda a, is_batched: a if is_batched else jnp.broadcast_to(a, (size, *a.shape)),
            arguments,
            tuple(batched[1:]),
        )
        sums = _pack(order, tiles, *spread)
        return sums, jax.tree.map(lambda _: True, sums)

    return one


def _pack(order: str, tiles: Ragged, ids: Int[Array, " m"], x: PyTree, *v: PyTree) -> Any:
    """The oracle `order` of m clients at m points, tile by tile: (weights_r losses_r) summed for each client."""
    problem, starts, tile, lanes = tiles.problem, jnp.asarray(tiles.starts), tiles.tile, tiles.lanes
    losing = client_problem(tiles)
    dtype = jnp.result_type(float)
    first, last = starts[ids], starts[ids + 1]
    counts = (last - first + tile - 1) // tile
    ends = jnp.cumsum(counts, dtype=starts.dtype)

    def tile_sum(rows, weights, x, *v):
        return derivative(order, lambda y: loss_sum(losing, y, rows, weights))(x, *v)

    def step(k, sums):
        number = k * lanes + jnp.arange(lanes, dtype=starts.dtype)
        owner = jnp.minimum(jnp.searchsorted(ends, number, side="right"), ids.size - 1)
        begin = first[owner] + (number - (ends - counts)[owner]) * tile
        index = begin[:, None] + jnp.arange(tile, dtype=starts.dtype)[None]
        inside = (index < last[owner][:, None]) & (number < ends[-1])[:, None]
        rows = jax.vmap(lambda index: take(problem.rows, index))(jnp.where(inside, index, 0))
        weights = inside.astype(dtype) / (last - first)[owner][:, None].astype(dtype)
        parts = jax.vmap(tile_sum)(rows, weights, *jax.tree.map(lambda a: a[owner], (x, *v)))
        return jax.tree.map(lambda total, part: total.at[owner].add(part), sums, parts)

    points = jax.tree.map(lambda a: a[0], (x, *v))
    zero = jax.eval_shape(lambda: tile_sum(take(problem.rows, jnp.zeros(tile, starts.dtype)), jnp.zeros(tile, dtype), *points))
    sums = jax.tree.map(lambda a: jnp.zeros((ids.size, *a.shape), a.dtype), zero)
    return lax.fori_loop(0, (ends[-1] + lanes - 1) // lanes, step, sums)
