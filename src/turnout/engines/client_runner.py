"""What a client holds, and how its local methods are run on that."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.client import Client, Done
from turnout.core.local_methods import local_method
from turnout.engines.ask import finished
from turnout.engines.host_client import OwnClient
from turnout.io.serialization import copy_leaves
from turnout.privacy.mechanism import Protection
from turnout.problems.base import Problem, correct_sum, sum_in_chunks
from turnout.problems.oracles.base import Oracle
from turnout.problems.storage.bfloat16 import MixedPrecision
from turnout.problems.storage.jax_client import JaxClient, JaxOracle
from turnout.problems.storage.row_formats import row_count, take


class Rows:
    """The rows of one client of a problem written in JAX, for which local methods are compiled, `mixed` ones in bfloat16."""

    def __init__(self, problem: Problem, mixed: bool = False):
        self.size, self.mixed = row_count(problem.rows), mixed
        # Sizes are rounded up to powers of two, so that clients share compiled programs.
        places = np.arange(1 << (self.size - 1).bit_length())
        self.problem = copy_leaves(replace(problem, rows=take(problem.rows, np.minimum(places, self.size - 1))))
        self.weights = np.where(places < self.size, 1 / self.size, 0)

    def run(
        self, algorithm, start: PyTree, number: int, state: PyTree, key, message: PyTree, name: str,
        protection: Protection | None = None, noise=None,
    ) -> Done:  # fmt: skip
        """Run the local method `name` on a message, and protect its reply with the key `noise`."""
        mine = algorithm, self.problem, start, self.weights, number, state
        return run_locally(*mine, key, message, protection, noise, name=name, mixed=self.mixed)

    def measure(self, names: tuple[str, ...], x: PyTree) -> dict[str, PyTree]:
        """Return the client's own part of what `metrics.measure` finds."""
        return _measure(self.problem, self.weights, x, names=names)


class Own:
    """The oracle of a client that is not written in JAX, for which local methods run step by step."""

    def __init__(self, oracle: Oracle):
        self.oracle, self.size = oracle, oracle.size
        self._put: tuple = (None, None)

    def run(
        self, algorithm, start: PyTree, number: int, state: PyTree, key, message: PyTree, name: str,
        protection: Protection | None = None, noise=None,
    ) -> Done:  # fmt: skip
        """Run the local method `name` on a message, and protect its reply with the key `noise`."""
        if self._put[0] is not algorithm:
            on_device = jax.device_put(algorithm)
            # Beside parameters in NumPy, a step with a number of JAX is a dispatch more.
            self._put = algorithm, jax.tree.map(np.asarray, on_device) if self.oracle.returns_new_arrays else on_device
        algorithm = self._put[1]
        if not self.oracle.returns_new_arrays:
            state, message = jax.device_put((state, message))
        with self.oracle.local_work(key) as oracle:
            client = OwnClient(jnp.asarray(number, "int32"), key, state, oracle)
            # Whatever calls back from a compiled program is to be done inside.
            done = jax.block_until_ready(local_method(algorithm, name, start)(client, message))
        if protection is not None or not self.oracle.returns_new_arrays:
            return _protected(done, state, protection, noise)
        reply, kept = jax.tree.map(_array, (done.reply, state if done.state is None else done.state))
        return done._replace(reply=reply, state=kept)

    def measure(self, names: tuple[str, ...], x: PyTree) -> dict[str, PyTree]:
        """Return the client's own part of what `metrics.measure` finds."""
        with self.oracle.evaluating():
            found = _measured(OwnClient(0, None, None, self.oracle), names, x)
            if "accuracy" in names:
                found["accuracy"] = jnp.asarray(self.oracle.accuracy(jax.tree.map(np.asarray, x)), jnp.result_type(float))
        return found


def _array(leaf):
    return leaf if isinstance(leaf, np.ndarray) else jnp.asarray(leaf)


def held(client: Oracle | Problem, mixed: bool = False) -> Rows | Own:
    """Return what runs the local methods of a client that is an `Oracle` or a `Problem` of one client."""
    return Rows(client, mixed) if isinstance(client, Problem) else Own(client)


@partial(jax.jit, static_argnames=("name", "mixed"))
def run_locally(algorithm, problem, start, weights, number, state, key, message, protection, noise, *, name, mixed) -> Done:
    """Run the local method `name` of a client that has `problem` alone, and protect its reply with the key `noise`."""
    client = JaxClient(jnp.asarray(number, "int32"), key, state, _oracle(problem, weights, mixed))
    return _protected(local_method(algorithm, name, start)(client, message), state, protection, noise)


def _protected(done: Done, state: PyTree, protection: Protection | None, noise) -> Done:
    return finished(done if protection is None else protection.protect(done, noise), state)


@partial(jax.jit, static_argnames=("names",))
def _measure(problem, weights, x, *, names) -> dict[str, PyTree]:
    oracle = _oracle(problem, weights)
    found = _measured(JaxClient(0, None, None, oracle), names, x)
    if "accuracy" in names:
        rows = take(problem.rows, jnp.arange(weights.size))
        found["accuracy"] = sum_in_chunks(problem, rows, weights, lambda rows, weights: correct_sum(problem, x, rows, weights))
    return found


def _oracle(problem, weights, mixed: bool = False) -> JaxOracle:
    # Sparse rows become a batch here, where their number is known.
    rows = take(problem.rows, jnp.arange(weights.size))
    return JaxOracle(MixedPrecision(problem) if mixed else problem, rows, weights, jnp.sum(weights > 0, dtype="int32"))


def _measured(client: Client, names: tuple[str, ...], x: PyTree) -> dict[str, PyTree]:
    if "gradient" in names:
        value, gradient = client.value_and_grad(x)
        return {"value": value, "gradient": gradient}
    return {"value": client.value(x)} if "value" in names else {}
