"""How the compiled engine stores all clients' rows: padded to equal sizes if that wastes little, else ragged."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.core.cohort import Cohort
from turnout.core.records import record, static
from turnout.core.rows import rows_at
from turnout.problems.base import Problem
from turnout.problems.row_formats import is_sparse, row_count, take
from turnout.problems.row_sums import derivative, of_rest, of_rows
from turnout.problems.storage.bfloat16 import MixedPrecision
from turnout.problems.storage.client_states import look_up, write
from turnout.problems.storage.jax_client import JaxOracle

MAX_PADDING = 1.75
"""Clients are padded to the largest one if this takes at most so many times the number of rows."""

CHUNK = 2**25
"""Bytes of the rows whose losses are computed at once: they are copied."""


class Storage(ABC):
    """The rows of clients as the compiled engine reaches them."""

    problem: Problem
    mixed: bool

    @abstractmethod
    def oracle(self, i: Int[Array, ""]):
        """Return client i's oracle."""

    @abstractmethod
    def sum_over_rows(self, part: Callable, by_client: bool = False) -> Any:
        """Return the sum of `part(rows, share)` over chunks of all rows.

        A chunk has at most `problem.rows_at_once` rows and `CHUNK` bytes, or rows of one client only where rows mix.

        Args:
            part: A function of the chunk's rows [b, ...] and their shares [b], `Problem.row_share`.
            by_client: Whether it gets instead of the shares the client of each row, and the row's share of its client's rows.
        """

    def states_of_all(self, state: PyTree) -> PyTree:
        """Return what is kept for all clients whose rows are here, if each begins with the private state `state`."""
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (self.ids.size, *jnp.shape(leaf))), state)

    def look_up(self, kept: PyTree, cohort: Cohort, first: PyTree) -> tuple[PyTree, Int[Array, " m"]]:
        """Return the states of a cohort's clients [m, ...], and the cohort's ids, which depend on this lookup.

        Args:
            kept: What is kept for all clients.
            cohort: The cohort.
            first: The state of a client that was never asked.
        """
        return look_up(kept, cohort)

    def write_back(self, kept: PyTree, states: PyTree, ids: Int[Array, " m"], answered: Bool[Array, " m"]) -> PyTree:
        """Return what is kept for all clients with the states of those that answered replaced.

        Args:
            kept: What is kept for all clients.
            states: New states of a cohort's clients [m, ...].
            ids: Ids of the cohort, as `look_up` returned them.
            answered: Places whose state is stored [m].
        """
        return write(kept, states, ids, answered)

    @property
    def ids(self) -> Int[Array, " clients"]:
        """The clients whose rows are here."""
        return jnp.arange(self.problem.clients, dtype="int32")


class InMemory(Storage):
    """The rows of all clients, or of those of one device of a mesh, in memory."""

    row_share: Float[Any, " all_rows"]

    @abstractmethod
    def flat(self) -> PyTree:
        """Return all rows, in the order of `row_share`."""

    @property
    @abstractmethod
    def bounds(self) -> Int[Array, " bounds"]:
        """Where each client's rows begin and end among all."""

    @abstractmethod
    def row_owners(self) -> tuple[Int[Array, " all_rows"], Float[Array, " all_rows"]]:
        """Return the client of each row, in the order of `row_share`, and its share of that client's rows."""

    def over_devices(self, sums: PyTree) -> PyTree:
        """Return sums over what is here as sums over all devices."""
        return sums

    def of_all_clients(self, states: PyTree) -> PyTree:
        """Return what is kept here for each client [clients, ...] as that of all clients [n, ...]."""
        return states

    def sum_over_rows(self, part, by_client=False):
        share = self.row_owners() if by_client else jnp.asarray(self.row_share)
        return self.over_devices(_sum_over_rows_here(self, part, share))


@record
class Padded(InMemory):
    """Every client's rows padded to the size s of the largest.

    Args:
        problem: The problem, whose rows are arrays [n, s, ...].
        weight: 1 / n_i for each row and 0 for padding [n, s]; None if all sizes are equal, since a constant is faster.
        row_share: `Problem.row_share` of each row, 0 for padding [n s].
        mixed: Whether clients compute in bfloat16.
    """

    problem: Problem
    weight: Float[Any, "n s"] | None
    row_share: Float[Any, " all_rows"]
    mixed: bool = static(default=False)

    def oracle(self, i: Int[Array, ""]):
        """Return client i's oracle."""
        return PaddedOracle(self, i)

    def flat(self) -> PyTree:
        """Return all rows [n s, ...], in the order of `row_share`."""
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.problem.rows)

    @property
    def bounds(self) -> Int[Array, " bounds"]:
        """Where each client's rows begin and end among all."""
        n, size = jax.tree.leaves(self.problem.rows)[0].shape[:2]
        return jnp.arange(n + 1) * size

    def row_owners(self) -> tuple[Int[Array, " all_rows"], Float[Array, " all_rows"]]:
        """Return the client of each row, in the order of `row_share`, and its share of that client's rows."""
        n, size = jax.tree.leaves(self.problem.rows)[0].shape[:2]
        share = jnp.full((n, size), 1 / size) if self.weight is None else jnp.asarray(self.weight)
        return jnp.repeat(jnp.arange(n, dtype="int32"), size), share.ravel()

    def bytes_per_client(self) -> int:
        """Return the bytes of one client's rows, which are copied for each client computed at once."""
        return sum(leaf.nbytes // leaf.shape[0] for leaf in jax.tree.leaves(self.problem.rows))


class PaddedOracle(JaxOracle):
    """The oracle of one client of a `Padded`.

    Args:
        storage: Rows of all clients.
        i: Id of the client.
    """

    def __init__(self, storage: Padded, i: Int[Array, ""]):
        self._storage, self._i = storage, i
        rows = jax.tree.map(lambda leaf: rows_at(jnp.asarray(leaf), i[None])[0], storage.problem.rows)
        size = row_count(rows)
        if storage.weight is None:
            super().__init__(client_problem(storage), rows, jnp.full(size, 1 / size), jnp.asarray(size, "int32"))
        else:
            weights = jnp.asarray(storage.weight)[i]
            super().__init__(client_problem(storage), rows, weights, jnp.sum(weights > 0, dtype="int32"))

    def at(self, numbers, weights):
        # Indexes all clients' rows, so that this client's are not copied first.
        rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[self._i, numbers], self._storage.problem.rows)
        return JaxOracle(self.problem, rows, weights, jnp.sum(weights > 0, dtype="int32"), batch=True)


@record
class Ragged(InMemory):
    """Rows one after another without padding.

    The rows of a cohort are visited in tiles of consecutive rows of one client, several tiles at a time. The work is
    proportional to the cohort's rows and the memory to one step.

    Args:
        problem: The problem.
        starts: Where each client's rows begin [n + 1].
        row_share: `Problem.row_share` of each row [rows].
        tile: The number of rows of a tile.
        lanes: The number of tiles computed at once.
        mixed: Whether clients compute in bfloat16.
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
        """Return all rows, in the order of `row_share`."""
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
        """Return 0: rows are not copied for each client."""
        return 0


class RaggedOracle:
    """The oracle of one client of a `Ragged`.

    Args:
        storage: Rows of all clients.
        i: Id of the client.
    """

    def __init__(self, storage: Ragged, i: Int[Array, ""]):
        self.problem, self._storage, self._first = storage.problem, storage, jnp.asarray(storage.starts)[i]
        self._i = i
        self.size = (jnp.asarray(storage.starts)[i + 1] - self._first).astype("int32")

    def __call__(self, order, x, *v):
        rest = derivative(order, of_rest(order, self._storage.problem))(x, *v)
        return jax.tree.map(jnp.add, _tiled(order)(self._storage, self._i, x, *v), rest)

    def at(self, numbers, weights) -> JaxOracle:
        """Return the oracle of the rows `numbers` [b] with `weights` [b]; rows of positive weight come first.

        Args:
            numbers: Numbers of the rows [b].
            weights: Weight of each row [b].
        """
        rows = take(self._storage.problem.rows, self._first + numbers.astype(self._first.dtype))
        return JaxOracle(client_problem(self._storage), rows, weights, jnp.sum(weights > 0, dtype="int32"), batch=True)


def client_problem(storage: Storage) -> Problem | MixedPrecision:
    """Return the problem whose losses clients compute, in bfloat16 if `mixed`."""
    return MixedPrecision(storage.problem) if storage.mixed else storage.problem


def in_memory(problem: Problem, mixed: bool = False) -> Padded | Ragged:
    """Return the rows of `problem` in memory, at most `MAX_PADDING` times their own size.

    Args:
        problem: The problem.
        mixed: Whether losses are computed in bfloat16.
    """
    sizes, n = problem.sizes, problem.clients
    leaves = jax.tree.leaves(problem.rows, is_leaf=is_sparse)
    largest, rows = int(sizes.max()), int(sizes.sum())
    if n * largest > MAX_PADDING * rows or any(map(is_sparse, leaves)):
        tile = int(np.clip(2 ** np.ceil(np.log2(np.median(sizes))), 8, 256))
        # Where rows mix the result depends on the tiles.
        tile = problem.rows_at_once if problem.mixes_rows else min(tile, problem.rows_at_once)
        starts = problem.offsets.astype(np.int32 if rows < 2**31 else np.int64)
        lanes = max(1, min(1024, problem.rows_at_once) // tile)
        return Ragged(problem, starts, problem.row_share, tile=tile, lanes=lanes, mixed=mixed)
    return padded(problem, mixed)


def padded(problem: Problem, mixed: bool = False) -> Padded:
    """Return the rows of `problem`, which are no sparse ones, with those of each client padded to the largest one's number.

    Args:
        problem: The problem.
        mixed: Whether losses are computed in bfloat16.
    """
    sizes, n = problem.sizes, problem.clients
    largest = int(sizes.max())
    inside = np.arange(largest) < sizes[:, None]
    index = np.where(inside, problem.offsets[:-1, None] + np.arange(largest), 0)
    equal = bool(inside.all())
    rows = jax.tree.map(lambda leaf: leaf.reshape(n, largest, *leaf.shape[1:]) if equal else leaf[index], problem.rows)
    share = np.zeros(inside.shape)
    share[inside] = problem.row_share
    weight = None if equal else inside / sizes[:, None]
    return Padded(replace(problem, rows=rows), weight, share.ravel(), mixed)


def total(storage: Storage, order: str, x: PyTree) -> Any:
    """Return the oracle `order` ("value", "value_and_grad") of sum_r row_share_r losses_r(x), f without its regulariser.

    Args:
        storage: Rows of the problem in a layout of the engine.
        order: "value" or "value_and_grad".
        x: Parameters.
    """
    problem = storage.problem
    return storage.sum_over_rows(lambda rows, share: derivative(order, of_rows(order, problem, rows, share))(x))


def objective(storage: Storage, order: str, x: PyTree) -> Any:
    """Return the oracle `order` ("value", "value_and_grad") of f at x.

    Args:
        storage: Rows of the problem in a layout of the engine.
        order: "value" or "value_and_grad".
        x: Parameters.
    """
    return jax.tree.map(jnp.add, total(storage, order, x), derivative(order, of_rest(order, storage.problem))(x))


def _sum_over_rows_here(storage: InMemory, part, share: PyTree) -> Any:
    rows, problem = storage.flat(), storage.problem
    count, at_once = row_count(rows), problem.rows_at_once
    if not problem.mixes_rows:
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(rows))
        at_once = min(at_once, max(1, CHUNK * count // max(1, size)))
        if count <= at_once and not any(map(is_sparse, jax.tree.leaves(rows, is_leaf=is_sparse))):
            return part(rows, share)
    bounds = storage.bounds if problem.mixes_rows else jnp.array([0, count])
    size = at_once if problem.mixes_rows else -(-count // -(-count // at_once))
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
    """Return the oracle `order` of one client of a `Ragged`; its `vmap` rule packs the tiles of all clients densely."""

    @custom_vmap
    def one(storage, i, x, *v):
        return jax.tree.map(lambda a: a[0], _pack(order, storage, *jax.tree.map(lambda a: a[None], (i, x, *v))))

    @one.def_vmap
    def rule(size, batched, storage, *arguments):
        spread = jax.tree.map(
            lambda a, is_batched: a if is_batched else jnp.broadcast_to(a, (size, *a.shape)),
            arguments,
            tuple(batched[1:]),
        )
        sums = _pack(order, storage, *spread)
        return sums, jax.tree.map(lambda _: True, sums)

    return one


def _pack(order: str, storage: Ragged, ids: Int[Array, " m"], x: PyTree, *v: PyTree) -> Any:
    """Return the oracle `order` of m clients at m points: sum_r losses_r / n_i for each client, tile by tile."""
    problem, starts, tile, lanes = storage.problem, jnp.asarray(storage.starts), storage.tile, storage.lanes
    computed = client_problem(storage)
    dtype = jnp.result_type(float)
    if order == "hessian":
        # Each tile has a matrix of its own.
        size = sum(leaf.size for leaf in jax.tree.leaves(x)) // ids.size
        lanes = max(1, min(lanes, CHUNK // (8 * size**2)))
    first, last = starts[ids], starts[ids + 1]
    counts = (last - first + tile - 1) // tile
    ends = jnp.cumsum(counts, dtype=starts.dtype)

    def tile_sum(rows, weights, x, *v):
        return derivative(order, of_rows(order, computed, rows, weights))(x, *v)

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
