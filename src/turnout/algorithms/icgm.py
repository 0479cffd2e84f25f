"""I-CGM: one delegate takes a proximal step along an estimate of the gradient."""

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.icgm_adaptive import renewed, scale_of, sketch
from turnout.algorithms.passes import cohort_size
from turnout.client_solvers.base import own
from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.errors import UserError
from turnout.core.local_methods import norm
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add
from turnout.estimators.base import Estimate, Estimator, Kept, Reach
from turnout.samplers import Delegate, Full, Sampler

LEAST = 1e-3
"""The least p that is chosen for a user: clients who are all alike would make K infinite."""


class Server(NamedTuple):
    """x^t, g^t with the estimator's memory, and lam where it is measured."""

    x: PyTree
    estimate: Estimate
    lam: Float[Array, ""] | None = None


@record
class Icgm(Algorithm):
    """x^{t+1} ~ argmin_y F_t(y), F_t(y) = f_1(y) + <g^t - grad f_1(x^t), y> + (lam / 2) |y - x^t|^2, f_1 being the delegate's.

    The inexact composite gradient method of cost-aware client selection (sections 3 and 6). A round asks the delegate for
    x^{t+1}, then lets `estimator` make g^{t+1}, with cohorts of `sampler` or with full passes; these ask as many clients at a
    time as `sampler` does, m of n. The delegate starts from y_0 = x^t and takes K steps of equation (8),

        y_{k+1} = (eta y_k + lam x^t + q (grad f_1(x^t) - g^t) - grad f_1(y_k)) / (lam + eta),   eta = `smoothness`.

    This is CGM_rand: K >= 1 is geometric with mean 1 / `probability` and x^{t+1} = y_K, K oracle calls. With `steps` it is
    CGM_const: K = `steps` and x^{t+1} is that of y_1, ..., y_K with the least |grad F_t|, K + 1 calls. `probability` is
    lam / (lam + eta) unless given, the order of Lemma 3.4, and then at least 1 / 1000. eta is the delegate's L_i unless given. q
    is `damping`, and `batch` the rows of each oracle call, all unless given: both are for deep networks (appendix E). g^t goes
    down and x^{t+1} comes up; x^t goes down too, unless `delegate` is the sampler "delegate", which then kept it. Any other
    sampler of one client will do, and is charged as it draws. A lost reply of the delegate leaves x as it is. The weights
    lambda_i may be unequal.

    Without `lam` it is measured, beyond the paper: it begins with the largest eta, and is `renewed` by every step. Then lam and
    a seed go down to the delegate too, a sketch of grad f_1(x^{t+1}) - grad f_1(x^t), 8 numbers, comes up for one more call, and
    `estimator` has to be one that is sent differences of gradients: "exact", "sarah", "rg-saga" or "zerosarah".
    """

    sampler: Sampler
    estimator: Estimator
    lam: Positive | None = None
    probability: Fraction | None = None
    steps: Count | None = None
    smoothness: Positive | Float[np.ndarray, " n"] | None = None
    damping: Fraction = 1.0
    batch: Count | None = static(default=None)
    delegate: Sampler = Delegate()
    everyone: Full | None = field(default=None, repr=False)
    scale: float | None = field(default=None, repr=False)

    def __post_init__(self):
        if self.probability is not None and self.steps is not None:
            raise UserError(
                "Icgm takes either steps, the delegate's number of them, or probability, with which one is the last: give one"
            )

    def bind(self, problem):
        smoothness, constants = self.smoothness, None if self.smoothness is not None else problem.constants()
        if smoothness is None:
            if constants is None:
                raise UserError(f"Icgm needs smoothness: {type(problem).__name__} does not know how smooth its clients are")
            smoothness = constants.smoothness
        size = cohort_size(self.sampler, problem.population)
        estimator = self.estimator.bind(size / problem.clients, self.batch)
        return replace(
            self, smoothness=smoothness, estimator=estimator, everyone=Full(size=size), scale=scale_of(problem.clients, size)
        )

    def client_state(self, x):
        return Kept(self.estimator.client_state(x), x if self._stays else None)

    def start(self, ask, x):
        largest = jnp.max(jnp.asarray(self.smoothness, jax.tree.leaves(x)[0].dtype))
        return Server(x, self.estimator.start(ask, self._reach, x), largest if self.lam is None else None)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, estimate, lam = server
        if lam is None:
            new, _ = self._led(ask, x, estimate, None)
            return Server(new, self.estimator.step(ask, self._reach, new, x, estimate))
        seed = jax.random.bits(ask.key(), (), "uint32")
        new, sketched = self._led(ask, x, estimate, (lam, seed))
        found, moved = self.estimator.follow(ask, self._reach, new, x, estimate)
        apart, step = sketch(seed, moved) - sketched, norm(add(new, x, -1.0))
        return Server(new, found, renewed(lam, self.scale, apart, step))

    def _led(self, ask: Ask, x: PyTree, estimate: Estimate, measured: tuple | None) -> tuple[PyTree, Any]:
        """Return x^{t+1}, which is x^t where the delegate's reply was lost, and the sketch that came with it."""
        replies = ask(self.delegate, self.solve, (None if self._stays else x, estimate.gradient, measured))
        new, sketched = replies.mean()
        return if_any(replies, new, x), sketched

    @property
    def _stays(self) -> bool:
        """Whether the delegate is always the same, and so has x^t already."""
        return isinstance(self.delegate, Delegate)

    @property
    def _reach(self) -> Reach:
        return Reach(self.sampler, self.everyone)

    @on_client
    def solve(self, client, message):
        """x^{t+1}, and where lam is measured a sketch of grad f_1(x^{t+1}) - grad f_1(x^t)."""
        x, g, measured = message
        x = client.state.point if self._stays else x
        eta = own(self.smoothness, client.id)
        lam, seed = (self.lam, None) if measured is None else measured
        count, batches = jax.random.split(client.key)

        def slope(k, y) -> PyTree:
            oracle = client if self.batch is None else client.batch(jax.random.fold_in(batches, k), self.batch)
            return oracle.grad(y)

        first = slope(0, x)
        drift = jax.tree.map(lambda first, g: self.damping * (first - g), first, g)
        model = Model(x, drift, lam, eta)
        y = model.step(x, first)
        if self.steps is None:
            queries = jax.random.geometric(count, self._chance(lam, eta), dtype="int32")
            y = last(client, model, slope, y, queries - 1)
        else:
            queries = jnp.asarray(self.steps, "int32") + 1
            y = flattest(client, model, slope, y, queries - 1)
        state = client.state._replace(point=y) if self._stays else None
        if seed is None:
            return Done((y, None), state, queries)
        return Done((y, sketch(seed, add(slope(0, y), first, -1.0))), state, queries + 1)

    def _chance(self, lam, eta):
        """p of the last step."""
        return jnp.maximum(lam / (lam + eta), LEAST) if self.probability is None else self.probability


class Model(NamedTuple):
    """F_t(y) = f_1(y) - <drift, y> + (lam / 2) |y - x|^2, f_1 being eta-smooth."""

    x: PyTree
    drift: PyTree
    lam: Any
    eta: Any

    def step(self, y: PyTree, slope: PyTree) -> PyTree:
        """Return the next y, given `slope` = grad f_1(y)."""
        lam, eta = self.lam, self.eta
        return jax.tree.map(lambda y, x, c, slope: (eta * y + lam * x + c - slope) / (lam + eta), y, self.x, self.drift, slope)

    def gradient(self, y: PyTree, slope: PyTree) -> PyTree:
        """grad F_t(y), given `slope` = grad f_1(y)."""
        return jax.tree.map(lambda y, x, c, slope: slope - c + self.lam * (y - x), y, self.x, self.drift, slope)


def last(client: Client, model: Model, slope: Callable, y: PyTree, steps) -> PyTree:
    """Return where `steps` steps from y = y_1 end."""

    def step(state):
        k, y = state
        return k + 1, model.step(y, slope(k, y))

    return client.loop(steps, step, (jnp.ones((), "int32"), y))[1]


def flattest(client: Client, model: Model, slope: Callable, y: PyTree, points) -> PyTree:
    """Return that of the first `points` iterates from y = y_1 on with the least |grad F_t|."""

    def step(state):
        k, y, best, least = state
        here = slope(k, y)
        length = norm(model.gradient(y, here))
        best = jax.tree.map(lambda y, best: jnp.where(length < least, y, best), y, best)
        return k + 1, model.step(y, here), best, jnp.minimum(length, least)

    infinite = jnp.asarray(jnp.inf, jax.tree.leaves(y)[0].dtype)
    return client.loop(points, step, (jnp.ones((), "int32"), y, y, infinite))[2]
