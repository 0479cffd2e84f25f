"""Rows over the devices of a mesh: each device holds the rows of n / D consecutive clients, which never leave it."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.core.records import record, static
from turnout.problems.base import Problem
from turnout.problems.row_formats import SparseRows, is_sparse
from turnout.problems.storage.layout import InMemory, Padded, Ragged

AXIS = "clients"
"""Name of the axis of a mesh."""

OWN = ("weight", "row_share", "starts")
"""The fields of a storage that differ from device to device, beside its problem's rows."""


@record
class Sharded(InMemory):
    """The rows that one device holds, inside `jax.shard_map` over the axis "clients"; outside it, those of all devices.

    Args:
        own: The rows of this device's clients.
        count: Clients of a device: device k has those numbered from k `count`.
    """

    own: Padded | Ragged
    count: int = static()

    @property
    def problem(self) -> Problem:
        """The problem, whose rows are those of this device."""
        return self.own.problem

    @property
    def mixed(self) -> bool:
        """Whether clients compute in bfloat16."""
        return self.own.mixed

    @property
    def ids(self) -> Int[Array, " clients"]:
        """The clients of this device; those from n on do not exist."""
        return self.first + jnp.arange(self.count, dtype="int32")

    @property
    def first(self) -> Int[Array, ""]:
        """The first client of this device."""
        return lax.axis_index(AXIS).astype("int32") * self.count

    def holds(self, ids: Int[Array, " m"]) -> Bool[Array, " m"]:
        """Return which clients are this device's."""
        return (ids >= self.first) & (ids < self.first + self.count)

    @property
    def row_share(self) -> Float[Any, " rows"]:
        """`Problem.row_share` of each row here, 0 for padding [rows]."""
        return self.own.row_share

    @property
    def bounds(self) -> Int[Array, " bounds"]:
        """Where the rows of each client of this device begin and end among those here."""
        return self.own.bounds

    def flat(self) -> PyTree:
        """Return the rows here, in the order of `row_share`."""
        return self.own.flat()

    def oracle(self, i: Int[Array, ""]):
        """Return client i's oracle, if it is one of this device's; else some oracle."""
        return self.own.oracle(jnp.clip(i - self.first, 0, self.count - 1))

    def row_owners(self) -> tuple[Int[Array, " rows"], Float[Array, " rows"]]:
        """Return the client of each row here, in the order of `row_share`, and its share of that client's rows, 0 for padding."""
        client, share = self.own.row_owners()
        return self.first + client, jnp.where(jnp.arange(client.size, dtype=self.bounds.dtype) < self.bounds[-1], share, 0)

    def over_devices(self, sums: PyTree) -> PyTree:
        """Return sums over what is here as sums over all devices."""
        return lax.psum(sums, AXIS)

    def of_all_clients(self, states: PyTree) -> PyTree:
        """Return what is kept here for each client [clients, ...] as that of all clients [n, ...]."""
        n = self.problem.clients
        return jax.tree.map(lambda leaf: lax.all_gather(leaf, AXIS, tiled=True)[:n], states)


def shard(storage: Padded | Ragged, device: int, devices: int) -> Sharded:
    """Return the rows of one of several devices; all have as many, so that the last rows may be padding.

    Args:
        storage: The rows of all clients.
        device: Number of the device.
        devices: How many there are.
    """
    count = clients_per_device(storage.problem.clients, devices)
    return Sharded((_padded if isinstance(storage, Padded) else _ragged)(storage, device, count), count)


def clients_per_device(clients: int, devices: int) -> int:
    """Return how many clients a device holds."""
    return -(-clients // devices)


def is_own(path: tuple) -> bool:
    """Return whether the leaf of a `Sharded` at `path` differs from device to device."""
    names = [getattr(key, "name", "") for key in path]
    return names[0] == "own" and (names[1] in OWN or names[1:3] == ["problem", "rows"])


def _padded(storage: Padded, device: int, count: int) -> Padded:
    def cut(leaf):
        return _filled(np.asarray(leaf)[device * count : (device + 1) * count], count)

    size = jax.tree.leaves(storage.problem.rows)[0].shape[1]
    share = cut(np.asarray(storage.row_share).reshape(-1, size)).ravel()
    weight = None if storage.weight is None else cut(storage.weight)
    return Padded(replace(storage.problem, rows=jax.tree.map(cut, storage.problem.rows)), weight, share, storage.mixed)


def _ragged(storage: Ragged, device: int, count: int) -> Ragged:
    starts = np.asarray(storage.starts)
    # Devices beyond the last client have none.
    bounds = starts[np.minimum(np.arange(0, starts.size + count - 1, count), starts.size - 1)]
    most = int(np.diff(bounds).max())
    own = starts[np.clip(device * count + np.arange(count + 1), 0, starts.size - 1)]
    first, last = int(own[0]), int(own[-1])

    def cut(leaf):
        return _sparse(leaf, bounds, first, last, most) if is_sparse(leaf) else _filled(np.asarray(leaf)[first:last], most)

    rows = jax.tree.map(cut, storage.problem.rows, is_leaf=is_sparse)
    share = _filled(np.asarray(storage.row_share)[first:last], most)
    shape = {"tile": storage.tile, "lanes": storage.lanes, "mixed": storage.mixed}
    return Ragged(replace(storage.problem, rows=rows), own - own[0], share, **shape)


def _sparse(rows: SparseRows, bounds: np.ndarray, first: int, last: int, most: int) -> SparseRows:
    """Return the rows `first` to `last` - 1 with as many rows and entries as the largest part between `bounds` has."""
    starts = np.asarray(rows.starts)
    entries = int(np.diff(starts[bounds]).max())
    begin, end = int(starts[first]), int(starts[last])
    values, columns = (_filled(np.asarray(leaf)[begin:end], entries) for leaf in (rows.values, rows.columns))
    own = starts[first : last + 1] - starts[first]
    own = np.concatenate([own, np.full(most - (last - first), own[-1], own.dtype)])
    return SparseRows(values, columns, own, width=rows.width, longest=rows.longest)


def _filled(part: np.ndarray, size: int) -> np.ndarray:
    """Return an array with zeros at its end up to a size; one that is as large is not copied."""
    if len(part) == size:
        return part
    return np.concatenate([part, np.zeros((size - len(part), *part.shape[1:]), part.dtype)])
