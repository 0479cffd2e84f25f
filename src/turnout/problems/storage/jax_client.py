"""The client of a problem written in JAX, and its oracle."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import eval_jaxpr
from jax.custom_batching import sequential_vmap
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.core.backend import on_cpu
from turnout.core.client import Client
from turnout.core.permutation import shuffled
from turnout.problems.row_formats import take
from turnout.problems.row_sums import derivative, of_rest, of_rows, sum_in_chunks
from turnout.problems.storage.branches import cond


class JaxClient(Client):
    """A client whose loss is a JAX function.

    `oracle(order, x, *v)` returns "value", "value_and_grad", "hvp" or "hessian" of f_i, `oracle.problem` has its losses, and
    `oracle.at(numbers, weights)` is the oracle of some of its `oracle.size` rows. A client that is not `active` fills an empty
    place of a cohort, and makes no passes.

    Args:
        id: Id of the client.
        key: Random key of the client.
        state: Its private state.
        oracle: Its loss.
        active: Whether the client is in the cohort, and not an empty place.
    """

    def __init__(self, id, key, state, oracle, active=True):
        self.id, self.key, self.state = id, key, state
        self._oracle, self._active = oracle, active

    def value(self, x):
        return self._oracle("value", x)

    def value_and_grad(self, x):
        return self._oracle("value_and_grad", x)

    def training(self, x):
        """Return ((f_i(x), the statistics after this pass), gradient) in training.

        Args:
            x: A `Point`.
        """
        return self._oracle("training", x)

    def hvp(self, x, v):
        return self._oracle("hvp", x, v)

    def hessian(self, x):
        # Products visit all rows d times, but have the activations for one direction in memory.
        return by_products(self.hvp, x) if self._oracle.problem.activation_bytes else self._oracle("hessian", x)

    def batch(self, key, size):
        numbers = jax.random.randint(key, (size,), 0, self._oracle.size, "int32")
        return self._of(numbers, jnp.full(size, 1 / size))

    def passes(self, key, count, size, body, carry):
        rows = self._oracle.size
        batches = (rows + size - 1) // size
        count = jnp.where(self._active, jnp.asarray(count).astype("int32"), 0)

        def one_pass(number, carry):
            order = shuffled(jax.random.fold_in(key, number), rows)

            def step(k, carry):
                positions = k * size + jnp.arange(size, dtype="int32")
                share = 1 / jnp.minimum(size, rows - k * size).astype(jnp.result_type(float))
                weights = jnp.where(positions < rows, share, 0)
                return body(self._of(order(jnp.minimum(positions, rows - 1)), weights), carry)

            return lax.fori_loop(0, batches, step, carry)

        return sequentially(lambda: lax.fori_loop(0, count, one_pass, carry)), count * batches

    def alone(self, f):
        # A ragged oracle computes all clients of a cohort together.
        if not isinstance(self._oracle, JaxOracle):
            return f()
        shapes = jax.eval_shape(f)

        def nothing():
            return jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)

        return sequentially(lambda: lax.cond(self._active, f, nothing))

    def choose(self, number, branches):
        # For clients computed together a switch would copy all rows for each place of the cohort.
        if not isinstance(self._oracle, JaxOracle):
            return super().choose(number, branches)
        return self.alone(lambda: lax.switch(number, branches))

    def _of(self, numbers, weights):
        """Return this client with the weighted sum over the rows `numbers` in place of f_i."""
        return JaxClient(self.id, self.key, self.state, self._oracle.at(numbers, weights))

    def loop(self, count, body, carry):
        return lax.fori_loop(0, count, lambda _, carry: body(carry), carry)

    def cond(self, predicate, then, otherwise, carry):
        return cond(predicate, then, otherwise, carry)


def by_products(hvp: Callable[[PyTree, PyTree], PyTree], x: PyTree) -> Float[Array, "d d"]:
    """Return a Hessian at x.

    Args:
        hvp: Returns the Hessian at a point times a vector.
        x: The point.
    """
    flat, unravel = ravel_pytree(x)
    return jax.vmap(lambda v: ravel_pytree(hvp(x, unravel(v)))[0])(jnp.eye(flat.size, dtype=flat.dtype))


class JaxOracle:
    """The oracle of f_i for rows in one array: sum_r weights_r losses(x, r) + regulariser(x).

    Args:
        problem: A `Problem`, or an object with its losses and regulariser.
        rows: The rows [b, ...].
        weights: The weight of each row [b], 0 for padding.
        size: The number of rows that are not padding; they come first.
        batch: Whether the rows are one minibatch, which is not divided into chunks if its rows mix in training.
    """

    def __init__(self, problem, rows, weights, size, batch: bool = False):
        self.problem, self._rows, self._weights, self.size = problem, rows, weights, size
        self._whole = weights.size <= problem.rows_at_once or (batch and (problem.mixes_rows or problem.trains_apart))

    def __call__(self, order, x, *v):
        # Client by client, so that the activations of one client are in memory at a time.
        return sequentially(lambda: self._sum(order, x, *v)) if self.problem.activation_bytes else self._sum(order, x, *v)

    def _sum(self, order, x, *v):
        problem = self.problem

        def part(rows, weights, rest=None):
            sums = of_rows(order, problem, rows, weights)
            whole = sums if rest is None else lambda y: jax.tree.map(jnp.add, sums(y), rest(y))
            return derivative(order, whole)(x, *v)

        if self._whole:
            return part(self._rows, self._weights, of_rest(order, problem))
        rest = derivative(order, of_rest(order, problem))(x, *v)
        return jax.tree.map(jnp.add, sum_in_chunks(problem, self._rows, self._weights, part), rest)

    def at(self, numbers, weights) -> "JaxOracle":
        """Return the oracle of the rows `numbers` [b] with `weights` [b]; rows of positive weight come first.

        Args:
            numbers: Numbers of the rows [b].
            weights: Weight of each row [b].
        """
        return JaxOracle(self.problem, take(self._rows, numbers), weights, jnp.sum(weights > 0, dtype="int32"), batch=True)


def sequentially(f: Callable):
    """Return f(), computed client by client under `vmap` on a CPU, so that no client makes as many steps as the slowest one.

    An accelerator computes all clients of the cohort at once.
    """
    if not on_cpu():
        return f()
    program, shapes = jax.make_jaxpr(f, return_shape=True)()
    run = sequential_vmap(lambda *inputs: eval_jaxpr(program.jaxpr, inputs))
    return jax.tree.unflatten(jax.tree.structure(shapes), run(*program.consts))
