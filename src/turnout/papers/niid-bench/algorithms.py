"""The local steps of NIID-Bench, which have momentum, and SCAFFOLD with the faults of released programs as switches."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

import turnout as t
from turnout.algorithms.scaffold import ScaffoldState
from turnout.client_solvers.local_sgd import local_steps
from turnout.core.client import Client
from turnout.core.records import NonNegative, Proper, static
from turnout.core.tree import add, zeros


def descended(algorithm: Any, client: Client, x: PyTree, gradient: Callable, drift: PyTree = None) -> tuple[PyTree, Any]:
    """Return y - x and the number of the steps m <- momentum m + g(y), y <- y - lr (m + drift), from m = 0.

    Args:
        algorithm: Has lr, momentum, batch and epochs.
        client: The client.
        x: Parameters to start from.
        gradient: g, a function of the client on the rows of a step and of y.
        drift: What is added to each step, without momentum; None for nothing.
    """

    def step(rows: Client, carry: tuple) -> tuple:
        y, m = carry
        m = add(gradient(rows, y), m, algorithm.momentum)
        return add(y, m if drift is None else add(m, drift), -algorithm.lr), m

    (y, _), steps = local_steps(client, step, (x, zeros(x)), None, algorithm.batch, algorithm.epochs)
    return add(y, x, -1.0), steps


def plain(rows: Client, y: PyTree) -> PyTree:
    """Return grad f_i(y) on the rows of a step."""
    return rows.grad(y)


@t.record
class MomentumFedAvg(t.FedAvg):
    """FedAvg with momentum in the local steps."""

    momentum: Proper = 0.9

    @t.on_client
    def train(self, client, message):
        """y_i - x."""
        change, steps = descended(self, client, message[0], plain)
        return t.Done(change, queries=steps)


@t.record
class MomentumFedProx(MomentumFedAvg):
    """FedProx with momentum on the gradient of f_i(y) + (mu/2) |y - x|^2."""

    mu: NonNegative = 0.01

    @t.on_client
    def train(self, client, message):
        """y_i - x."""
        x = message[0]
        change, steps = descended(self, client, x, lambda rows, y: add(rows.grad(y), add(y, x, -1.0), self.mu))
        return t.Done(change, queries=steps)


@t.record
class MomentumScaffold(t.Scaffold):
    """SCAFFOLD, option II, with momentum on grad f_i(y) but not on c - c_i, as NIID-Bench and Flower's baseline have it."""

    momentum: Proper = 0.9

    @t.on_client
    def train(self, client, message):
        """y_i - x and the change of c_i."""
        x, c, _ = message
        return self.trained(client, x, c, client.state)

    def trained(self, client: Client, x: PyTree, c: PyTree, own: PyTree) -> t.Done:
        """Return what a client with the variate `own` replies."""
        drift = add(c, own, -1.0)
        change, steps = descended(self, client, x, plain, drift)
        divisor = self.divisor(steps)
        new = jax.tree.map(lambda change, drift: -change / divisor - drift, change, drift)
        return t.Done((change, add(new, own, -1.0)), state=new, queries=steps)

    def divisor(self, steps: Any) -> Any:
        """Return by what x - y_i is divided, E_i lr."""
        return jnp.asarray(steps, jnp.result_type(float)) * self.lr


class Variate(NamedTuple):
    """c_i, and whether the client was asked before."""

    variate: PyTree
    asked: Bool[Array, ""]


@t.record
class FaultyScaffold(MomentumScaffold):
    """SCAFFOLD with faults that were read in released programs.

    Args:
        variates: "zero"; "random": c and all c_i are one random network at first (NIID-Bench); "model": c is the first x, and c_i
            the x that client i receives first (Flower's baseline).
        server: "share": the server adds sum_{i in S} lambda_i (change of c_i) to c; "mean": the mean over S (NVIDIA FLARE).
        scale: By what x - y_i is divided: "steps", E_i lr; "batches", lr times the batches of one epoch (PFLlib, before its issue
            160); "epochs", the number of epochs (Plato).
    """

    variates: Literal["zero", "random", "model"] = static(default="zero")
    server: Literal["share", "mean"] = static(default="share")
    scale: Literal["steps", "batches", "epochs"] = static(default="steps")

    def start(self, ask, x):
        return ScaffoldState(x, self._first(x))

    def client_state(self, x):
        return Variate(self._first(x), jnp.zeros((), bool))

    def _first(self, x: PyTree) -> PyTree:
        if self.variates == "random":
            # The weights of the first network in another order: those of a layer are independent and alike.
            return jax.tree.map(lambda leaf: jax.random.permutation(jax.random.key(0), leaf.ravel()).reshape(leaf.shape), x)
        return x if self.variates == "model" else zeros(x)

    def round(self, ask, server):
        x, c = server
        replies = ask(self.sampler, self.train, (x, c, None))
        ask.observe(replies)
        change, mean = replies.mean()
        return ScaffoldState(add(x, change, self.server_lr), add(c, mean if self.server == "mean" else replies.total()[1]))

    @t.on_client
    def train(self, client, message):
        """y_i - x and the change of c_i."""
        (x, c, _), (own, asked) = message, client.state
        if self.variates == "model":
            own = jax.tree.map(lambda own, x: jnp.where(asked, own, x), own, x)
        done = self.trained(client, x, c, own)
        return done._replace(state=Variate(done.state, jnp.ones((), bool)))

    def divisor(self, steps):
        if self.scale == "epochs":
            return jnp.asarray(self.epochs, jnp.result_type(float))
        return super().divisor(steps) / (self.epochs if self.scale == "batches" else 1)


@t.record
class UnsavedScaffold(MomentumScaffold):
    """SCAFFOLD as in FedBench 0.1.3, whose clients forget c_i: c <- c + sum_{i in S} lambda_i (y_i - x) / (E_i lr), c_i = 0.

    The sign is the other one, and c is not subtracted. With all clients and the same E_i, c = (x - x_0) / (E lr), so that the
    steps of each round lead back to the first model x_0.
    """

    @t.on_client
    def train(self, client, message):
        """y_i - x, and that over E_i lr."""
        x, c, _ = message
        change, steps = descended(self, client, x, plain, c)
        divisor = self.divisor(steps)
        return t.Done((change, jax.tree.map(lambda change: change / divisor, change)), queries=steps)
