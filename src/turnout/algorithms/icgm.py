"""I-CGM: one delegate takes a proximal step along an estimate of the gradient."""

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.icgm_adaptive import prox_scale, sketch, updated_lam
from turnout.client_solvers.base import of_client
from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.errors import UserError
from turnout.core.local_methods import norm
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add, where
from turnout.estimators import Estimator
from turnout.estimators.base import ClientMemory, Estimate
from turnout.samplers import Delegate, Sampler
from turnout.samplers.full_pass import cohort_size
from turnout.theory.selection import lam_warning

MIN_PROBABILITY = 1e-3
"""Smallest default of `probability`: for clients that are all alike the mean number of steps would be infinite."""


class IcgmState(NamedTuple):
    """x^t, g^t with the estimator's memory, and lam where it is measured."""

    x: PyTree
    estimate: Estimate
    lam: Float[Array, ""] | None = None


@record
class Icgm(Algorithm):
    """I-CGM, the inexact composite gradient method (Cost-aware client selection, sections 3 and 6).

    x^{t+1} ~ argmin_y F_t(y), F_t(y) = f_1(y) + <g^t - grad f_1(x^t), y> + (lam / 2) |y - x^t|^2, f_1 being the delegate's.

    A round asks the delegate for x^{t+1}; then `estimator` makes g^{t+1}, with cohorts of `sampler` or with full passes, as many
    clients at a time. The delegate starts from y_0 = x^t and takes K steps of equation (8),

        y_{k+1} = (eta y_k + lam x^t + q (grad f_1(x^t) - g^t) - grad f_1(y_k)) / (lam + eta).

    CGM_rand, the default: K >= 1 is geometric with mean 1 / `probability` and x^{t+1} = y_K, for K oracle calls. CGM_const: K =
    `steps` and x^{t+1} is the one of y_1, ..., y_K with the smallest |grad F_t|, for K + 1 calls. g^t goes down and x^{t+1} comes
    up; x^t goes down too, unless `delegate` is a `Delegate`, which kept it. A lost reply of the delegate leaves x as it is.

    Without `lam` it is measured, beyond the paper: it starts at the largest eta and every step updates it (`updated_lam`). Then
    lam and a seed go down to the delegate too, a sketch of grad f_1(x^{t+1}) - grad f_1(x^t), 8 numbers, comes up for one more
    call, and `estimator` has to be one that is sent differences of gradients: `Exact`, `Sarah`, `RgSaga` or `ZeroSarah`.

    Args:
        sampler: Draws the cohorts of the estimator.
        estimator: Makes g; any gradient estimator.
        lam: Weight of the proximal term; None means measured.
        probability: Inverse mean of K; None means lam / (lam + eta), the order of Lemma 3.4, and at least 1 / 1000.
        steps: Fixed K; excludes `probability`.
        smoothness: eta, one number or [n]; None means L_i of the delegate.
        damping: q, in (0, 1]; below 1 for deep networks (appendix E).
        batch: Rows of each oracle call; None means all.
        delegate: Draws the delegate, one client; it is charged as it draws.
        scale: Factor of the measured lam. Set by `bind`.

    Raises:
        UserError: If both `steps` and `probability` are given, or `smoothness` is neither given nor known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Icgm(t.Nice(2), t.RgSvrg(), lam=5.0), problem, rounds=10)
        >>> trace.ledger.totals()["draws_delegate"]
        10
    """

    sampler: Sampler
    estimator: Estimator
    lam: Positive | None = None
    probability: Fraction | None = field(default=None, kw_only=True)
    steps: Count | None = field(default=None, kw_only=True)
    smoothness: Positive | Float[np.ndarray, " n"] | None = field(default=None, kw_only=True)
    damping: Fraction = field(default=1.0, kw_only=True)
    batch: Count | None = static(default=None, kw_only=True)
    delegate: Sampler = field(default=Delegate(), kw_only=True)
    scale: float | None = field(default=None, repr=False, kw_only=True)

    cohorts_per_round = None

    def __post_init__(self):
        if self.probability is not None and self.steps is not None:
            raise UserError(
                "Icgm has either a number of steps of the delegate or the probability that a step is the last: give one of them"
            )

    def bind(self, problem):
        smoothness = self.smoothness
        if smoothness is None:
            constants = problem.constants()
            if constants is None:
                raise UserError(f"Icgm needs smoothness: {type(problem).__name__} does not know how smooth its clients are")
            smoothness = constants.smoothness
        estimator = self.estimator.bind(self.sampler, problem, self.batch)
        scale = prox_scale(problem.clients, cohort_size(self.sampler, problem.population))
        return replace(self, smoothness=smoothness, estimator=estimator, scale=scale)

    def selection_warning(self, constants):
        """Return why the theorems on client selection do not hold for `lam`, given the `Dissimilarity`; None if they do."""
        return None if self.lam is None else lam_warning(float(self.lam), float(constants.delta_one))

    def client_state(self, x):
        return ClientMemory(self.estimator.client_state(x), x if self._delegate_is_fixed else None)

    def start(self, ask, x):
        largest = jnp.max(jnp.asarray(self.smoothness, jax.tree.leaves(x)[0].dtype))
        return IcgmState(x, self.estimator.start(ask, self.sampler, x), largest if self.lam is None else None)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, estimate, lam = server
        if lam is None:
            new, _ = self._delegated(ask, x, estimate, None)
            return IcgmState(new, self.estimator.step(ask, self.sampler, new, x, estimate))
        seed = jax.random.bits(ask.key(), (), "uint32")
        new, delegate_sketch = self._delegated(ask, x, estimate, (lam, seed))
        estimate, change = self.estimator.step_with_change(ask, self.sampler, new, x, estimate)
        gap, step = sketch(seed, change) - delegate_sketch, norm(add(new, x, -1.0))
        return IcgmState(new, estimate, updated_lam(lam, self.scale, gap, step))

    def _delegated(self, ask: Ask, x: PyTree, estimate: Estimate, measured: tuple | None) -> tuple[PyTree, Any]:
        """Return x^{t+1}, which is x^t if the delegate's reply was lost, and the sketch that came with it."""
        replies = ask(self.delegate, self.solve, (None if self._delegate_is_fixed else x, estimate.gradient, measured))
        new, delegate_sketch = replies.mean()
        return if_any(replies, new, x), delegate_sketch

    @property
    def _delegate_is_fixed(self) -> bool:
        """Whether all rounds have one delegate, which therefore holds x^t."""
        return isinstance(self.delegate, Delegate)

    @on_client
    def solve(self, client, message):
        """x^{t+1}, and where lam is measured a sketch of grad f_1(x^{t+1}) - grad f_1(x^t)."""
        x, g, measured = message
        x = client.state.point if self._delegate_is_fixed else x
        eta = of_client(self.smoothness, client.id)
        lam, seed = (self.lam, None) if measured is None else measured
        key, batches = jax.random.split(client.key)

        def slope(k, y) -> PyTree:
            oracle = client if self.batch is None else client.batch(jax.random.fold_in(batches, k), self.batch)
            return oracle.grad(y)

        first = slope(0, x)
        drift = jax.tree.map(lambda first, g: self.damping * (first - g), first, g)
        model = Model(x, drift, lam, eta)
        y = model.step(x, first)
        if self.steps is None:
            queries = jax.random.geometric(key, self._stop_probability(lam, eta), dtype="int32")
            y = last_iterate(client, model, slope, y, queries - 1)
        else:
            queries = jnp.asarray(self.steps, "int32") + 1
            y = flattest_iterate(client, model, slope, y, queries - 1)
        state = client.state._replace(point=y) if self._delegate_is_fixed else None
        if seed is None:
            return Done((y, None), state, queries)
        return Done((y, sketch(seed, add(slope(0, y), first, -1.0))), state, queries + 1)

    def _stop_probability(self, lam, eta):
        """Return the probability that a step is the last."""
        return jnp.maximum(lam / (lam + eta), MIN_PROBABILITY) if self.probability is None else self.probability


class Model(NamedTuple):
    """F_t(y) = f_1(y) - <drift, y> + (lam / 2) |y - x|^2, f_1 being eta-smooth.

    Args:
        x: x^t.
        drift: grad f_1(x^t) - g^t, damped.
        lam: lambda.
        eta: Smoothness of f_1.
    """

    x: PyTree
    drift: PyTree
    lam: Any
    eta: Any

    def step(self, y: PyTree, slope: PyTree) -> PyTree:
        """Return the next y, given `slope` = grad f_1(y).

        Args:
            y: The iterate.
            slope: grad f_1(y).
        """
        lam, eta = self.lam, self.eta
        return jax.tree.map(lambda y, x, c, slope: (eta * y + lam * x + c - slope) / (lam + eta), y, self.x, self.drift, slope)

    def gradient(self, y: PyTree, slope: PyTree) -> PyTree:
        """grad F_t(y), given `slope` = grad f_1(y).

        Args:
            y: The iterate.
            slope: grad f_1(y).
        """
        return jax.tree.map(lambda y, x, c, slope: slope - c + self.lam * (y - x), y, self.x, self.drift, slope)


def last_iterate(client: Client, model: Model, slope: Callable, y: PyTree, steps) -> PyTree:
    """Return the iterate `steps` steps after y = y_1.

    Args:
        client: The client.
        model: The subproblem F_t.
        slope: Returns grad f_1 at y, given the number of the step and y.
        y: y_1.
        steps: Number of steps.
    """

    def step(state):
        k, y = state
        return k + 1, model.step(y, slope(k, y))

    return client.loop(steps, step, (jnp.ones((), "int32"), y))[1]


def flattest_iterate(client: Client, model: Model, slope: Callable, y: PyTree, points) -> PyTree:
    """Return the iterate with the smallest |grad F_t| of the first `points`, y = y_1 being the first.

    Args:
        client: The client.
        model: The subproblem F_t.
        slope: Returns grad f_1 at y, given the number of the step and y.
        y: y_1.
        points: Number of iterates, y_1 included.
    """

    def step(state):
        k, y, best, least = state
        gradient = slope(k, y)
        length = norm(model.gradient(y, gradient))
        best = where(length < least, y, best)
        return k + 1, model.step(y, gradient), best, jnp.minimum(length, least)

    infinite = jnp.asarray(jnp.inf, jax.tree.leaves(y)[0].dtype)
    return client.loop(points, step, (jnp.ones((), "int32"), y, y, infinite))[2]
