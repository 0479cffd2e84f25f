"""Lazy DANE: proximal steps of a random cohort, corrected by the last gradients of all clients that were ever heard."""

import math
from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, UInt32

from turnout.algorithms.icgm_adaptive import DECAY, SKETCH_SIZE, sketch
from turnout.client_solvers import Gradient, LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.local_methods import norm
from turnout.core.records import Positive, Proper, record
from turnout.core.replies import if_any
from turnout.core.tree import add, positive, where, zeros
from turnout.samplers import Sampler
from turnout.samplers.full_pass import cohort_size
from turnout.theory.selection import cohort_delta

OWN = 2.0
"""lam / delta is `OWN` + sqrt(n / m): the first part keeps nonconvex f_i in check, the second one makes up for old gradients."""


class Heard(NamedTuple):
    """What is known of the clients that were heard: a client's own b_i, x_i and 1 or 0, or the sums of lambda_i times these."""

    gradient: PyTree
    point: PyTree
    weight: Float[Array, ""]


class Measured(NamedTuple):
    """What is known of delta.

    Args:
        square: delta^2, summed over rounds with weights that decay.
        weight: The sum of these weights.
        start: z of the last round.
        end: x of the last round.
        seed: The seed of its sketches.
        mean: The cohort's mean of them.
    """

    square: Float[Array, ""]
    weight: Float[Array, ""]
    start: PyTree
    end: PyTree
    seed: UInt32[Array, ""]
    mean: Float[Array, " k"]


class LazyDaneState(NamedTuple):
    """x^t, x^{t-1}, the sums over the clients that were heard, and delta where it is measured."""

    x: PyTree
    old: PyTree
    heard: Heard
    delta: Measured | None = None


@record
class LazyDane(Algorithm):
    """DANE (Shamir et al., 2014) with one random cohort S a round, and old gradients of the others (beyond the papers).

    x^{t+1} = x^t + mean_{i in S} (y_i - x^t) + theta (x^t - x^{t-1}),
    y_i = argmin_y f_i(y) + <b - grad f_i(z), y> + (lam / 2) |y - x^t|^2, then b_i <- grad f_i(x^t) and x_i <- x^t for i in S.

    b and z are the means, weighted by lambda_i, of the gradients b_i and of the points x_i that they are about, over the clients
    that were ever drawn. As f_i moves the mean gradient b from z to y_i, an old b_i errs as much as clients' Hessians differ, and
    no estimator has to forget. The first cohort takes plain proximal steps. Fixed points are stationary: there all x_i = x and
    b = grad f(x) = 0.

    Without `lam` it is (2 + sqrt(n / m)) delta, and delta is measured: a cohort sends sketches, 8 numbers, of grad f_i(x^t) -
    grad f_i(z), and the next one how far its own are from their mean. lam is the largest L_i until then.

    Three vectors down, x^t, z and b, and three up, y_i - x^t and the changes of b_i and x_i; to measure delta the x and z of the
    last round come down too.

    Args:
        sampler: Draws the cohorts S.
        solver: Finds y_i.
        lam: Weight of the proximal term; None means measured.
        momentum: theta, in [0, 1), which helps where f is much flatter than lam.
        largest: The largest L_i. Set by `bind`.
        spread: 1 + q_m / m, q_m = (n - m) / (n - 1). Set by `bind`.
        factor: lam / delta. Set by `bind`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.LazyDane(t.Nice(2)), problem, rounds=10)
        >>> trace.ledger.totals()["draws_random"], trace.ledger.totals()["draws_delegate"]
        (10, 0)
    """

    sampler: Sampler
    solver: LocalSolver = Gradient(steps=100, tolerance=0.0)
    lam: Positive | None = None
    momentum: Proper = 0.3
    largest: Any = field(default=None, repr=False, kw_only=True)
    spread: Any = field(default=None, repr=False, kw_only=True)
    factor: Any = field(default=None, repr=False, kw_only=True)

    def bind(self, problem):
        size = cohort_size(self.sampler, problem.population)
        constants = problem.constants()
        if self.lam is None and constants is None:
            raise UserError(f"LazyDane needs lam: {type(problem).__name__} does not know how smooth its clients are")
        return replace(
            self,
            largest=None if constants is None else float(max(constants.smoothness)),
            spread=1 + cohort_delta(1.0, problem.clients, size) ** 2,
            factor=OWN + math.sqrt(problem.clients / size),
        )

    def client_state(self, x):
        return Heard(zeros(x), zeros(x), jnp.zeros((), jax.tree.leaves(x)[0].dtype))

    def start(self, ask, x):
        zero = jnp.zeros((), jax.tree.leaves(x)[0].dtype)
        unknown = Measured(zero, zero, x, x, jnp.zeros((), "uint32"), jnp.zeros(SKETCH_SIZE, zero.dtype))
        return LazyDaneState(x, x, Heard(zeros(x), zeros(x), zero), unknown if self.lam is None else None)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, old, heard, delta = server
        anyone = heard.weight > 0
        b, z = (jax.tree.map(lambda total: total / positive(heard.weight), total) for total in heard[:2])
        z = where(anyone, z, x)
        seed = jax.random.bits(ask.key(), (), "uint32")
        lam, measuring = (
            (self.lam, None) if delta is None else (self._lam(delta), (delta.start, delta.end, delta.seed, delta.mean))
        )
        replies = ask(self.sampler, self.move, (x, z, b, lam, anyone, measuring, seed if measuring else None))
        ask.observe(replies)
        moved, (_, change, _), (_, _, seen) = replies.mean()[0], replies.total(), replies.average()
        new = add(add(x, add(x, old, -1.0), self.momentum), moved)
        delta = None if delta is None else self._remeasured(delta, z, x, seed, *seen)
        return if_any(replies, LazyDaneState(new, x, add(heard, Heard(*change)), delta), server)

    def _lam(self, delta: Measured) -> Float[Array, ""]:
        """Return lambda for the next steps."""
        lam = jnp.sqrt(delta.square / positive(delta.weight))
        return jnp.where(delta.weight > 0, jnp.asarray(self.factor, lam.dtype) * lam, jnp.asarray(self.largest, lam.dtype))

    def _remeasured(self, delta: Measured, z: PyTree, x: PyTree, seed, mean, gap) -> Measured:
        """Return the estimate with `gap`, the mean square over the cohort, which is about the last round's segment."""
        length = norm(add(delta.end, delta.start, -1.0))
        square = gap / (jnp.asarray(self.spread, gap.dtype) * jnp.square(positive(length)))
        known = length > 0
        return Measured(
            jnp.where(known, DECAY * delta.square + square, delta.square),
            jnp.where(known, DECAY * delta.weight + 1, delta.weight),
            z,
            x,
            seed,
            mean,
        )

    @on_client
    def move(self, client, message):
        """y_i - x^t, the change of what is known of the client, and a sketch and how far off another is."""
        x, z, b, lam, anyone, measuring, seed = message
        at, before = client.grad(x), client.grad(z)
        pulled = jax.tree.map(lambda before, b: jnp.where(anyone, before - b, 0), before, b)
        solved = self.solver.minimise(client, Tilt(pulled, lam, x), x)
        state = Heard(at, x, jnp.ones_like(client.state.weight))
        reply, queries = (add(solved.point, x, -1.0), tuple(add(state, client.state, -1.0))), solved.queries + 2
        if measuring is None:
            return Done((*reply, None), state, queries)
        start, end, earlier, mean = measuring
        again = sketch(earlier, add(client.grad(end), client.grad(start), -1.0))
        seen = sketch(seed, add(at, before, -1.0)), jnp.mean(jnp.square(again - mean))
        return Done((*reply, seen), state, queries + 2)
