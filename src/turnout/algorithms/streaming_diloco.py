"""Streaming DiLoCo: islands that synchronise one fragment of the model at a time, and go on while it is under way."""

from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.diloco import DiLoCo
from turnout.client_solvers.local_sgd import local_steps, round_lr
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, Index, Share, record, static
from turnout.core.replies import if_any
from turnout.optimisers.base import hessian_probe


class Island(NamedTuple):
    """The client's own y_i, and the state of its optimiser."""

    y: PyTree
    optimiser: Any


class StreamingState(NamedTuple):
    """x, and the states of the server's optimiser, one for each fragment [fragments, ...]."""

    x: PyTree
    states: Any


@record
class StreamingDiLoCo(DiLoCo):
    """Streaming DiLoCo (Douillard et al., 2025, Algorithm 2): the fragments x_1, ..., x_P of x in turn, one in each round.

    In round r clients go on from their own y_i and make `steps` local steps of `optimiser`. After the first `overlap` of these
    the fragment q of the round before arrives: y_iq <- mixing y_iq + (1 - mixing) x_q. At the end they send fragment p = r mod P
    of y_i, and x_p <- a step of `server_optimiser` along mean_{i in S} (x_p - y_ip).

    Each fragment is synchronised once in H = P `steps` local steps, at another time than the others, so that the largest message
    is 1 / P of that of `DiLoCo`; `Ledger.peaks` has it. The paper has tau for `overlap`, the steps made while a fragment is under
    way, and alpha for `mixing`. Fragments are of equal size: successive numbers of all leaves, the last one filled with zeros.

    Messages have a part of x, so that personal leaves are trained within local steps or after them, not before.

    With one fragment, overlap = 0, mixing = 0 and all clients it is `DiLoCo`. All clients take part in the paper; a client that
    is not drawn makes no steps, and misses a fragment.

    Args:
        sampler: Who takes part in each round.
        optimiser: Optimiser of the clients.
        server_optimiser: Optimiser of the server, a first-order one.
        steps: Local steps in a round, or a list with one number for each client; 5 by default.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        schedule: Factor of the clients' lr in each round, which is sent along.
        fragments: P.
        overlap: Local steps before a fragment arrives, >= 0; at most those of a round.
        mixing: Share of the client's own numbers where a fragment arrives, in [0, 1].

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=8, seed=0)
        >>> outer = t.optimisers.Sgd(0.7, momentum=0.9, nesterov=True)
        >>> streaming = t.StreamingDiLoCo(t.Full(), t.optimisers.AdamW(0.01), outer, steps=10, fragments=4, overlap=2)
        >>> t.run(streaming, problem, rounds=8).ledger.peaks()
        {'bytes_down': 20, 'bytes_up': 16}
    """

    _: KW_ONLY
    fragments: Count = static()
    overlap: Index = 1
    mixing: Share = 0.5

    def start(self, ask, x):
        return StreamingState(x, jax.vmap(self.server_optimiser.start)(self._cut(x)))

    def client_state(self, x):
        return Island(x, self.optimiser.start(x))

    def round(self, ask, server):
        p, parts = (ask.round - 1) % self.fragments, self._cut(server.x)
        message = parts[(p - 1) % self.fragments], ask.round, round_lr(1.0, self.schedule, ask.round)
        replies = ask(self.sampler, self.train, message)
        old = jax.tree.map(lambda states: states[p], server.states)
        part, new = self.server_optimiser.step(parts[p], parts[p] - replies.mean(), old)
        states = jax.tree.map(lambda states, state: states.at[p].set(state), server.states, new)
        return if_any(replies, StreamingState(self._joined(parts.at[p].set(part), server.x), states), server)

    @on_client
    def train(self, client, message):
        """Fragment p of y_i."""
        arriving, number, factor = message
        optimiser = self.optimiser if factor is None else self.optimiser.with_lr_factor(factor)
        q, arrives, overlap = (number - 2) % self.fragments, number > 1, jnp.asarray(self.overlap, "int32")

        def merged(y, now):
            parts = self._cut(y)
            mixed = parts.at[q].set(self.mixing * parts[q] + (1 - self.mixing) * arriving)
            return self._joined(jnp.where(now & arrives, mixed, parts), y)

        def step(rows, carry):
            made, y, state = carry
            y = merged(y, made == overlap)
            probe = hessian_probe(lambda v: rows.hvp(y, v), y, client.key)
            return made + 1, *optimiser.step(y, rows.grad(y), state, probe)

        first = jnp.zeros((), "int32"), *client.state
        (made, y, state), steps = local_steps(client, step, first, self.steps, self.batch, self.epochs)
        y = merged(y, made <= overlap)
        return Done(self._cut(y)[(number - 1) % self.fragments], Island(y, state), optimiser.queries * steps)

    def _cut(self, x: PyTree) -> Float[Array, "fragments k"]:
        """Return the fragments of x."""
        flat = ravel_pytree(x)[0]
        return jnp.pad(flat, (0, -flat.size % self.fragments)).reshape(self.fragments, -1)

    @staticmethod
    def _joined(parts: Float[Array, "fragments k"], like: PyTree) -> PyTree:
        """Return the parameters with these fragments, of the structure of `like`."""
        flat, restore = ravel_pytree(like)
        return restore(parts.reshape(-1)[: flat.size])
