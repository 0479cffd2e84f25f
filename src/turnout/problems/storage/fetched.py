"""Rows that are not in memory, as the compiled engine reaches them: it has those of a cohort read in the middle of a round."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.host_calls import call, host
from turnout.core.records import record, static
from turnout.problems.base import Problem
from turnout.problems.storage.client_rows import Column
from turnout.problems.storage.jax_client import JaxOracle
from turnout.problems.storage.layout import CHUNK, Storage, client_problem


@record
class Fetched(Storage):
    """The rows of clients that `RowReader` reads, each client's padded to the size s of the largest.

    Args:
        problem: The problem, whose rows are arrays [0, ...].
        sizes: The number of rows of each client [n].
        reader: The number of the `RowReader`.
        sample: The clients on which f is evaluated [e]; None: on all.
        states: The number of the `StateFile` with the clients' private states; set by the engine.
        longest: s.
        mixed: Whether clients compute in bfloat16.
    """

    problem: Problem
    sizes: Int[Any, " n"]
    reader: Any
    sample: Int[Any, " e"] | None
    states: Any
    longest: int = static()
    mixed: bool = static(default=False)

    def rows_of(self, ids: Int[Array, "..."]) -> PyTree:
        """Return the rows of clients [..., s, ...]."""
        kinds = [jnp.result_type(float) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf.dtype for leaf in self._leaves]
        shapes = [jax.ShapeDtypeStruct((*ids.shape, self.longest, *leaf.shape[1:]), kind)
                  for leaf, kind in zip(self._leaves, kinds, strict=True)]  # fmt: skip
        leaves = call(_read, shapes, jnp.asarray(self.reader), ids)
        return jax.tree.unflatten(jax.tree.structure(self.problem.rows), leaves)

    @property
    def _leaves(self) -> list:
        return jax.tree.leaves(self.problem.rows)

    def weights_of(self, ids: Int[Array, "..."]) -> Float[Array, "... s"]:
        """Return 1 / n_i for each row of clients, 0 for padding [..., s]."""
        sizes = jnp.asarray(self.sizes)[ids][..., None]
        places = jnp.arange(self.longest, dtype=sizes.dtype).reshape(*(1,) * ids.ndim, -1)
        return jnp.where(places < sizes, 1 / sizes.astype(jnp.result_type(float)), 0)

    def oracle(self, i: Int[Array, ""]):
        """Return client i's oracle."""
        return JaxOracle(client_problem(self), self.rows_of(i), self.weights_of(i), jnp.asarray(self.sizes)[i].astype("int32"))

    def prefetch(self, ids: Int[Array, " m"]) -> Int[Array, ""]:
        """Have the rows of clients read soon, and return 0."""
        return call(_prefetch, [jax.ShapeDtypeStruct((), "int32")], jnp.asarray(self.reader), ids)[0]

    def states_of_all(self, state):
        """Return the version of the file of states, which has those of clients that took part; {} if clients have none."""
        return jnp.zeros((), "int32") if jax.tree.leaves(state) else state

    def look_up(self, kept, cohort, first):
        leaves, structure = jax.tree.flatten(first)
        if not leaves:
            return first, cohort.ids
        shapes = [jax.ShapeDtypeStruct((cohort.places, *jnp.shape(leaf)), jnp.result_type(leaf)) for leaf in leaves]
        known = jax.ShapeDtypeStruct((cohort.places,), bool)
        known, *stored = call(_read_states, [known, *shapes], jnp.asarray(self.states), kept, cohort.ids)
        states = [
            jnp.where(known.reshape(-1, *(1,) * jnp.ndim(leaf)), old, leaf) for old, leaf in zip(stored, leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, states), cohort.ids

    def write_back(self, kept, states, ids, answered):
        leaves = jax.tree.leaves(states)
        if not leaves:
            return kept
        version, heard = jax.ShapeDtypeStruct((), "int32"), jnp.where(answered, ids, -1)
        return call(_write_states, [version], jnp.asarray(self.states), kept, heard, *leaves)[0]

    def bytes_per_client(self) -> int:
        """Return the bytes of one client's rows."""
        return sum(self.longest * int(np.prod(leaf.shape[1:])) * leaf.dtype.itemsize for leaf in self._leaves)

    @property
    def judges(self) -> int:
        """The number of clients on which f is evaluated."""
        return self.problem.clients if self.sample is None else jnp.shape(self.sample)[0]

    def sum_over_rows(self, part, by_client=False):
        def of_block(ids, rows, weights):
            if by_client:
                return part(rows, (jnp.repeat(ids, self.longest), weights))
            # A sample of e clients stands for all n.
            stands_for = jnp.broadcast_to(self.problem.population.share(ids) * (self.problem.clients / self.judges), ids.shape)
            return part(rows, weights * jnp.repeat(stands_for, self.longest))

        def add(sums, ids, rows, weights, _):
            return jax.tree.map(jnp.add, sums, of_block(ids, rows, weights))

        first = jnp.zeros(self._at_once, "int32")
        shapes = jax.eval_shape(lambda: of_block(first, *self._block(first)))
        return self._in_blocks(add, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))

    def of_each(self, function) -> Float[Array, " e"]:
        """Return sum_r function(rows)_r / n_i for each client on which f is evaluated [e].

        Args:
            function: Function of rows [b, ...] and their weights, 0 for padding [b], with one number for each row [b].
        """

        def put(values, _, rows, weights, places):
            each = (function(rows, weights) * weights).reshape(-1, self.longest).sum(axis=1)
            return values.at[places].set(each, mode="drop")

        return self._in_blocks(put, jnp.zeros(self.judges, jnp.result_type(float)))

    @property
    def _at_once(self) -> int:
        """The number of clients whose rows are read at once."""
        most = min(self.problem.rows_at_once, CHUNK * self.longest // max(1, self.bytes_per_client()))
        return 1 if self.problem.mixes_rows else min(self.judges, max(1, most // self.longest))

    def _block(self, ids):
        """Return the rows of clients [m s, ...] and the share of each in its client's rows, 0 for padding [m s]."""
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.rows_of(ids)), self.weights_of(ids).ravel()

    def _in_blocks(self, step, carry):
        """Return what `step(carry, ids, rows, weights, places)` makes of the blocks of clients on which f is evaluated.

        Beyond the last client weights are 0, and places are their number.
        """
        size, judges = self._at_once, self.judges
        sample = None if self.sample is None else jnp.asarray(self.sample)

        def one(k, carry):
            places = k.astype("int32") * size + jnp.arange(size, dtype="int32")
            inside, first = places < judges, jnp.minimum(places, judges - 1)
            ids = first if sample is None else sample[first]
            rows, weights = self._block(ids)
            weights = jnp.where(jnp.repeat(inside, self.longest), weights, 0)
            return step(carry, ids, rows, weights, jnp.where(inside, places, judges))

        return lax.fori_loop(0, -(-judges // size), one, carry)


def fetched(problem: Problem, columns: list[Column], mixed: bool = False, sample: np.ndarray | None = None) -> Fetched:
    """Return the storage of a problem whose rows are columns that are read where they are needed.

    Args:
        problem: The problem.
        columns: The leaves of its rows.
        mixed: Whether clients compute in bfloat16.
        sample: The clients on which f is evaluated; None for all.
    """
    reader = columns[0].source.reader(tuple(columns))
    sizes = reader.source.sizes.astype(np.int32)
    rows = jax.tree.unflatten(
        jax.tree.structure(problem.rows), [np.zeros((0, *column.shape[1:]), column.dtype) for column in columns]
    )
    empty = replace(problem, rows=rows, offsets=np.zeros(1, np.int32))
    return Fetched(empty, sizes, reader.number, sample, np.asarray(0, np.int32), int(sizes.max()), mixed)


def _read(outputs, number, ids):
    flat = [output.reshape(-1, *output.shape[ids.ndim :]) for output in outputs]
    host(number).read(ids.ravel(), flat)


def _prefetch(outputs, number, ids):
    host(number).prefetch(ids)
    outputs[0][...] = 0


def _read_states(outputs, number, version, ids):
    known, *into = outputs
    _states_at(number, version).read(ids, known, into)


def _write_states(outputs, number, version, ids, *states):
    file, heard = _states_at(number, version), ids >= 0
    if heard.any():
        file.write(ids[heard], [state[heard] for state in states])
    file.version += 1
    outputs[0][...] = file.version


def _states_at(number, version):
    file = host(number)
    if file.version != int(version):
        raise RuntimeError(f"the clients' states have version {file.version}, and the program wants {int(version)}")
    return file
