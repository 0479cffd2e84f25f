"""The client of a loss that is a program of its own, in NumPy or PyTorch: local methods run step by step."""

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


class OwnClient(Client):
    """A client whose loss is an `Oracle`; loops and branches are those of Python.

    Only inside a loop of JAX, which some solvers of local problems have, is the oracle called back from a compiled program.
    """

    def __init__(self, id, key, state, oracle: Oracle, rows: Any = ALL):
        self.id, self.key, self.state = id, key, state
        self._oracle, self._rows = oracle, rows

    def value(self, x):
        return self._call("value", x)

    def value_and_grad(self, x):
        return self._call("value_and_grad", x)

    def hvp(self, x, v):
        return self._call("hvp", x, v)

    def hessian(self, x):
        flat, unravel = ravel_pytree(x)
        return jnp.stack([ravel_pytree(self.hvp(x, unravel(v)))[0] for v in jnp.eye(flat.size, dtype=flat.dtype)])

    def batch(self, key, size):
        return self._of(jax.random.randint(key, (size,), 0, self._oracle.size, "int32"))

    def passes(self, key, count, size, body, carry):
        rows = self._oracle.size
        batches = (rows + size - 1) // size

        def one_pass(packed):
            number, carry = packed
            order = _order(key, number, rows)
            if not isinstance(order, Tracer):
                order = np.asarray(order)  # Which is cut into batches at no cost.
            for k in range(batches):
                carry = body(self._of(order[k * size : (k + 1) * size]), carry)
            return number + 1, carry

        _, carry = self.loop(count, one_pass, (np.zeros((), "int32"), carry))
        return carry, jnp.asarray(count, "int32") * batches

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

    def _of(self, rows) -> "OwnClient":
        """This client with the mean over the rows numbered `rows` in the place of f_i."""
        return OwnClient(self.id, self.key, self.state, self._oracle, rows)

    def _call(self, order: str, x, *v):
        given = (x, *v, () if self._rows is ALL else self._rows)
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(given)):
            if self._oracle.in_parallel:
                raise NotParallel
            like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), x)
            return jax.pure_callback(partial(self._answer, order), _answered(order, like), *given)
        answer = self._answer(order, *given)
        return answer if self._oracle.returns_new_arrays else jax.tree.map(jnp.asarray, answer)

    def _answer(self, order: str, *given):
        """Return what the oracle answers at x, and v, about rows, as NumPy arrays."""
        x, *v, rows = jax.tree.map(np.asarray, given)
        answer = getattr(self._oracle, order)(x, *v, ALL if isinstance(rows, tuple) else rows)
        return fitted(answer, _answered(order, x), self.id)


def _answered(order: str, x):
    """Return how what an oracle answers at x is shaped."""
    value = jax.ShapeDtypeStruct((), jax.dtypes.canonicalize_dtype(float))
    return {"value": value, "value_and_grad": (value, x), "hvp": x}[order]


@partial(jax.jit, static_argnums=2)
def _order(key, number, rows: int):
    """The order in which the pass `number` goes through all rows."""
    return shuffled(jax.random.fold_in(key, number), jnp.asarray(rows, "int32"))(jnp.arange(rows, dtype="int32"))


def fitted(answer, wanted, client):
    """Return what a client's oracle answered as arrays of the shapes and types `wanted`; `UserError` where it does not fit."""
    if jax.tree.structure(answer) != jax.tree.structure(wanted):
        structures = f"{jax.tree.structure(answer)}, not {jax.tree.structure(wanted)}"
        raise UserError(f"the oracle of client {client} answers with the structure {structures}")
    for found, want in zip(jax.tree.leaves(answer), jax.tree.leaves(wanted), strict=True):
        if np.shape(found) != want.shape:
            raise UserError(
                f"the oracle of client {client} answers with shape {np.shape(found)} where {want.shape} was asked for"
            )
    return jax.tree.map(lambda found, want: np.asarray(found, want.dtype), answer, wanted)
