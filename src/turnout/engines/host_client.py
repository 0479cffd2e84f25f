"""The client of a loss in NumPy or PyTorch, whose local methods run step by step."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.flatten_util import ravel_pytree

from turnout.core.client import Client
from turnout.core.errors import UserError
from turnout.core.permutation import shuffled
from turnout.problems.oracles.base import ALL, NotParallel, Oracle
from turnout.problems.row_sums import Point


class HostClient(Client):
    """A client whose loss is an `Oracle`; loops and branches are those of Python.

    Some local solvers loop in JAX: there the compiled program calls the oracle back.

    Args:
        id: Id of the client.
        key: Random key of the client.
        state: Its private state.
        oracle: Its loss.
        rows: Numbers of the rows to take the mean over; all by default.
    """

    def __init__(self, id, key, state, oracle: Oracle, rows: Any = ALL):
        self.id, self.key, self.state = id, key, state
        self._oracle, self._rows, self.trains_itself = oracle, rows, not oracle.has_gradients

    def value(self, x):
        return self._call("value", x)

    def value_and_grad(self, x):
        return self._call("value_and_grad", x)

    def training(self, x):
        """Return ((f_i(x), the statistics after this pass), gradient) in training.

        Args:
            x: A `Point`.
        """
        return self._call("training", x)

    def step(self, x, factor):
        # What NumPy would promote is left to it.
        if isinstance(factor, np.ndarray | np.floating) and all(
            type(leaf) is np.ndarray and leaf.dtype == factor.dtype for leaf in jax.tree.leaves(x)
        ):
            y = self._oracle.step(x, self._rows, float(factor))
            if y is not None:
                return y
        return super().step(x, factor)

    def trained(self, x, work):
        x = jax.tree.map(np.asarray, x)
        y = self._oracle.trained(x, {name: np.asarray(value).item() for name, value in work.items()})
        return fitted(y, jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), x), self.id)

    def hvp(self, x, v):
        if type(self._oracle).hvp is Oracle.hvp:
            # Raises its UserError here; JAX wraps an error that is raised in a callback.
            self._oracle.hvp(x, v, self._rows)
        return self._call("hvp", x, v)

    def hessian(self, x):
        flat, unravel = ravel_pytree(x)
        return jnp.stack([ravel_pytree(self.hvp(x, unravel(v)))[0] for v in jnp.eye(flat.size, dtype=flat.dtype)])

    def batch(self, key, size):
        return self._on(jax.random.randint(key, (size,), 0, self._oracle.size, "int32"))

    def passes(self, key, count, size, body, carry):
        rows = self._oracle.size
        batches = (rows + size - 1) // size

        def one_pass(order, carry):
            for k in range(batches):
                carry = body(self._on(order[k * size : (k + 1) * size]), carry)
            return carry

        if any(isinstance(part, Tracer) for part in (key, count)):

            def numbered(packed):
                number, carry = packed
                return number + 1, one_pass(_order(key, number, rows), carry)

            _, carry = self.loop(count, numbered, (np.zeros((), "int32"), carry))
        else:
            # The order of a pass is worked out during the one before it; slices are views, in the type that indexes fastest.
            upcoming = _order(key, np.int32(0), rows)
            for number in range(int(count)):
                order = np.array(upcoming, "int64")
                if number + 1 < count:
                    upcoming = _order(key, np.int32(number + 1), rows)
                carry = one_pass(order, carry)
        steps = count * batches
        return carry, jnp.asarray(steps, "int32") if isinstance(steps, Tracer) else np.int32(steps)

    def choose(self, number, branches):
        return super().choose(number, branches) if isinstance(number, Tracer) else branches[int(number)]()

    def loop(self, count, body, carry):
        if isinstance(count, Tracer):
            return lax.fori_loop(0, count, lambda _, carry: body(carry), carry)
        for _ in range(int(count)):
            carry = body(carry)
        return carry

    def cond(self, predicate, then, otherwise, carry):
        if isinstance(predicate, Tracer):
            return lax.cond(predicate, then, otherwise, carry)
        return then(carry) if predicate else otherwise(carry)

    def _on(self, rows) -> "HostClient":
        """Return this client with the mean over `rows` in the place of f_i."""
        return HostClient(self.id, self.key, self.state, self._oracle, rows)

    def _call(self, order: str, x, *v):
        arguments = (x, *v, () if self._rows is ALL else self._rows)
        if order != "value" and self.trains_itself:
            # Raises its UserError here; JAX wraps an error that is raised in a callback.
            self._oracle.value_and_grad(x, self._rows)
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arguments)):
            if self._oracle.in_parallel:
                raise NotParallel
            like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), x)
            return jax.pure_callback(partial(self._ask_oracle, order), self._result_shape(order, like), *arguments)
        answer = self._ask_oracle(order, *arguments)
        return answer if self._oracle.returns_new_arrays else jax.tree.map(jnp.asarray, answer)

    def _ask_oracle(self, order: str, *arguments):
        """Return what the oracle's method `order` answers at x, and v, about rows, as NumPy arrays."""
        x, *v, rows = jax.tree.map(np.asarray, arguments)
        answer = getattr(self._oracle, order)(x, *v, ALL if isinstance(rows, tuple) else rows)
        return fitted(answer, self._result_shape(order, x), self.id)

    def _result_shape(self, order: str, x):
        """Return the shapes of what the oracle's method `order` answers at x."""
        value = jax.ShapeDtypeStruct((), jax.dtypes.canonicalize_dtype(float))
        along = x.varied if isinstance(x, Point) else x
        if order == "training":
            return (value, {name: x.fixed[name] for name in self._oracle.running if name in x.fixed}), along
        return {"value": value, "value_and_grad": (value, along), "hvp": along}[order]


@partial(jax.jit, static_argnums=2)
def _order(key, number, rows: int):
    """Return the order in which the pass `number` goes through all rows."""
    positions = jnp.arange(rows, dtype="int32")
    if rows == 1:
        return positions  # XLA's compiler for CPUs fails on the constant 1 (JAX 0.10).
    return shuffled(jax.random.fold_in(key, number), jnp.asarray(rows, "int32"))(positions)


def fitted(answer, wanted, client):
    """Return a client's answer as arrays of the shapes and types `wanted`; `UserError` where it does not fit.

    Args:
        answer: What the oracle returned.
        wanted: Shapes and types.
        client: Id of the client.
    """
    leaves, structure = jax.tree.flatten(answer)
    like, expected = jax.tree.flatten(wanted)
    if structure != expected:
        raise UserError(f"the oracle of client {client} answers with the structure {structure}, not {expected}")
    for leaf, one in zip(leaves, like, strict=True):
        if np.shape(leaf) != one.shape:
            raise UserError(f"the oracle of client {client} answers with shape {np.shape(leaf)} where {one.shape} was asked for")
        if np.asarray(leaf).dtype.kind in "cOSU":
            raise UserError(
                f"the oracle of client {client} answers with {np.asarray(leaf).dtype}, not with real numbers: return these"
            )
    return structure.unflatten(np.asarray(leaf, one.dtype) for leaf, one in zip(leaves, like, strict=True))
