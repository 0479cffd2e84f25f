"""Running one client's local methods on its data, outside of the compiled engine."""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.client import Client, Done
from turnout.core.compiling import program
from turnout.core.local_methods import local_method
from turnout.engines.exchange.strong_types import completed
from turnout.engines.groups.evaluation import evaluation_key, trained_state
from turnout.engines.host_client import HostClient
from turnout.io.serialization import copy_leaves
from turnout.privacy.mechanism import Protection
from turnout.problems.base import Problem
from turnout.problems.oracles.base import Oracle
from turnout.problems.row_formats import row_count, take
from turnout.problems.row_sums import correct_sum, sum_in_chunks
from turnout.problems.storage.bfloat16 import MixedPrecision
from turnout.problems.storage.jax_client import JaxClient, JaxOracle


def client_runner(client: Oracle | Problem, mixed: bool = False) -> "ClientRunner":
    """Return what runs the local methods of a client: an `Oracle`, or a `Problem` with one client.

    Args:
        client: Loss and rows of the client.
        mixed: Whether the loss is computed in bfloat16.
    """
    return JaxClientRunner(client, mixed) if isinstance(client, Problem) else HostClientRunner(client)


class ClientRunner(ABC):
    """Runs one client's local methods, and evaluates f_i, on its `size` rows."""

    size: int

    @abstractmethod
    def run(
        self, algorithm, start: PyTree, number: int, state: PyTree, key, message: PyTree, name: str,
        protection: Protection | None = None, noise=None,
    ) -> Done:  # fmt: skip
        """Run the local method `name` of client `number` on a message, and protect its reply with the random key `noise`.

        Args:
            algorithm: The algorithm, bound to the problem.
            start: Initial parameters.
            number: Id of the client.
            state: Private state of the client.
            key: Random key of the client.
            message: The message.
            name: Address of the local method.
            protection: Protection of the reply; None for none.
            noise: Random key of the protection's noise.
        """

    @abstractmethod
    def trained_state(self, algorithm, number: int, x: PyTree, statistics: PyTree, state: PyTree) -> PyTree:
        """Return the private state of client `number` after steps of its personal leaves: `evaluation.trained_state`.

        Args:
            algorithm: The algorithm of the engine, with groups.
            number: Id of the client.
            x: The parameters, of which the algorithm knows.
            statistics: The statistics that the server averages.
            state: The client's private state.
        """

    @abstractmethod
    def measure(self, names: tuple[str, ...], x: PyTree) -> dict[str, PyTree]:
        """Return the functions `names` of `metrics.measure`, for f_i.

        Args:
            names: Names of `metrics.asked_for`.
            x: Parameters.
        """


class JaxClientRunner(ClientRunner):
    """Compiles local methods for one client of a problem in JAX; where `mixed`, the loss is computed in bfloat16.

    Args:
        problem: A problem with one client.
        mixed: Whether the loss is computed in bfloat16.
    """

    def __init__(self, problem: Problem, mixed: bool = False):
        self.size, self.mixed = row_count(problem.rows), mixed
        # Sizes are rounded up to powers of two, so that clients share compiled programs.
        places = np.arange(1 << (self.size - 1).bit_length())
        self.problem = copy_leaves(replace(problem, rows=take(problem.rows, np.minimum(places, self.size - 1)), schema=None))
        self.weights = np.where(places < self.size, 1 / self.size, 0)

    def run(self, algorithm, start, number, state, key, message, name, protection=None, noise=None):
        return _run_compiled(
            algorithm, self.problem, start, self.weights, number, state, key, message, protection, noise,
            name=name, mixed=self.mixed,
        )  # fmt: skip

    def trained_state(self, algorithm, number, x, statistics, state):
        return _train_compiled(algorithm, self.problem, self.weights, number, x, statistics, state, mixed=self.mixed)

    def measure(self, names, x):
        return _measure_compiled(self.problem, self.weights, x, names=names)


class HostClientRunner(ClientRunner):
    """Runs local methods step by step for a client whose loss is an `Oracle`."""

    def __init__(self, oracle: Oracle):
        self.oracle, self.size = oracle, oracle.size
        self._placed: tuple = (None, None)

    def run(self, algorithm, start, number, state, key, message, name, protection=None, noise=None):
        algorithm = self._place(algorithm)
        if not self.oracle.returns_new_arrays:
            state, message = jax.device_put((state, message))
        with self.oracle.local_work(key) as oracle:
            client = HostClient(jnp.asarray(number, "int32"), key, state, oracle)
            # Callbacks from compiled programs have to end before the oracle is released.
            done = jax.block_until_ready(local_method(algorithm, name, start)(client, message))
        if protection is not None or not self.oracle.returns_new_arrays:
            return _protected(done, state, protection, noise)
        reply, state = jax.tree.map(_as_array, (done.reply, state if done.state is None else done.state))
        return done._replace(reply=reply, state=state)

    def trained_state(self, algorithm, number, x, statistics, state):
        key = evaluation_key(number)
        if not self.oracle.returns_new_arrays:
            x, statistics, state = jax.device_put((x, statistics, state))
        with self.oracle.local_work(key) as oracle:
            client = HostClient(jnp.asarray(number, "int32"), key, None, oracle)
            return jax.block_until_ready(trained_state(self._place(algorithm), client, x, statistics, state))

    def measure(self, names, x):
        with self.oracle.evaluating():
            values = _values(HostClient(0, None, None, self.oracle), names, x)
            if "accuracy" in names:
                values["accuracy"] = jnp.asarray(self.oracle.accuracy(jax.tree.map(np.asarray, x)), jnp.result_type(float))
        return values

    def _place(self, algorithm):
        """Return the algorithm with its numbers where the oracle computes; the last one is cached."""
        if self._placed[0] is not algorithm:
            on_device = jax.device_put(algorithm)
            # Parameters in NumPy times a number in JAX would be one more dispatch for each step.
            self._placed = algorithm, jax.tree.map(np.asarray, on_device) if self.oracle.returns_new_arrays else on_device
        return self._placed[1]


def _as_array(leaf):
    return leaf if isinstance(leaf, np.ndarray) else jnp.asarray(leaf)


@partial(program, static_argnames=("name", "mixed"))
def _run_compiled(algorithm, problem, start, weights, number, state, key, message, protection, noise, *, name, mixed) -> Done:
    client = JaxClient(jnp.asarray(number, "int32"), key, state, _oracle(problem, weights, mixed))
    return _protected(local_method(algorithm, name, start)(client, message), state, protection, noise)


@partial(program, static_argnames=("mixed",))
def _train_compiled(algorithm, problem, weights, number, x, statistics, state, *, mixed) -> PyTree:
    number = jnp.asarray(number, "int32")
    client = JaxClient(number, evaluation_key(number), None, _oracle(problem, weights, mixed))
    return trained_state(algorithm, client, x, statistics, state)


def _protected(done: Done, state: PyTree, protection: Protection | None, noise) -> Done:
    return completed(done if protection is None else protection.protect(done, noise), state)


@partial(program, static_argnames=("names",))
def _measure_compiled(problem, weights, x, *, names) -> dict[str, PyTree]:
    values = _values(JaxClient(0, None, None, _oracle(problem, weights)), names, x)
    if "accuracy" in names:
        rows = take(problem.rows, jnp.arange(weights.size))
        values["accuracy"] = sum_in_chunks(
            problem, rows, jnp.asarray(weights), lambda rows, weights: correct_sum(problem, x, rows, weights)
        )
    return values


def _oracle(problem, weights, mixed: bool = False) -> JaxOracle:
    # Sparse rows become a batch here, where their number is known; a round that is debugged has weights in NumPy.
    rows, weights = take(problem.rows, jnp.arange(weights.size)), jnp.asarray(weights)
    return JaxOracle(MixedPrecision(problem) if mixed else problem, rows, weights, jnp.sum(weights > 0, dtype="int32"))


def _values(client: Client, names: tuple[str, ...], x: PyTree) -> dict[str, PyTree]:
    if "gradient" in names:
        value, gradient = client.value_and_grad(x)
        return {"value": value, "gradient": gradient}
    return {"value": client.value(x)} if "value" in names else {}
