"""I-CGM without a delegate: the cohort that estimates the gradient takes the proximal steps as well."""

from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from turnout.algorithms.icgm_adaptive import DECAY, sketch
from turnout.client_solvers import Gradient, LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.local_methods import norm
from turnout.core.records import Positive, Proper, Share, record
from turnout.core.replies import if_any
from turnout.core.tree import add, positive, zeros
from turnout.samplers import Sampler
from turnout.samplers.full_pass import cohort_size
from turnout.theory.selection import cohort_delta

SAFETY = 5.0
"""lambda over the measured delta. Along the steps the clients' Hessians differ less than in their worst direction, and lambda has
to exceed what makes an f_i nonconvex."""


class Lam(NamedTuple):
    """lambda, measured: the `square` of delta, summed with weights that decay, their sum `weight`, and the estimated `change` of
    grad f from `older` = x^{t-2} to x^{t-1}.
    """

    square: Float[Array, ""]
    weight: Float[Array, ""]
    change: PyTree
    older: PyTree


class CohortIcgmState(NamedTuple):
    """x^t, x^{t-1}, g^{t-1}, c = sum_i lambda_i c_i, how many rounds were answered, and lambda where it is measured."""

    x: PyTree
    old: PyTree
    gradient: PyTree
    variate: PyTree
    rounds: Int[Array, ""]
    lam: Lam | None = None


@record
class CohortIcgm(Algorithm):
    """I-CGM with RG-SAGA in one exchange a round, with a cohort in the place of the delegate (beyond Cost-aware client selection).

    x^{t+1} = x^t + mean_{i in S} (y_i - x^t) + theta (x^t - x^{t-1}),
    y_i = argmin_y f_i(y) + <g_i^t - grad f_i(x^t), y> + (lam / 2) |y - x^t|^2,
    g_i^t = g^{t-1} + beta_t (c + d_i) + grad f_i(x^t) - grad f_i(x^{t-1}), d_i = grad f_i(x^{t-1}) - g^{t-1} - c_i,
    g^t = g^{t-1} + beta_t (c + sum_{i in S} (lambda_i / p_i) d_i) + sum_{i in S} (lambda_i / p_i) (grad f_i(x^t) - grad f_i(x^{t-1})),

    then c_i <- c_i + d_i for i in S, and c = sum_i lambda_i c_i. A round is one exchange with one random cohort S, where `Icgm` has
    two. The memory c_i is how a gradient differs from the estimate g of its time (as in Scaffold, Karimireddy et al., 2020) and
    not the gradient, so that it ages as fast as the clients differ, and is 0 for who was never drawn. beta_t = max(`beta`,
    1 / (t + 1)), g^{-1} = 0, x^{-1} = x^0, and no c_i changes in round 0.

    Without `lam` it is `SAFETY` times delta, measured: clients send how far grad f_i(x^{t-1}) - grad f_i(x^{t-2}) is from the
    cohort's mean of one round ago, squared, by a sketch of 8 numbers. lam is the largest L_i in rounds 0 and 1.

    Five vectors down, x^t, x^{t-1}, x^{t-2}, g and c, and three up, y_i - x^t, grad f_i(x^t) - grad f_i(x^{t-1}) and d_i; x^{t-2}
    only where lam is measured.

    Args:
        sampler: Draws the cohorts S.
        solver: Finds y_i.
        lam: Weight of the proximal term; None means measured.
        beta: Least weight of the memory, in [0, 1]; None means m / n.
        momentum: theta, in [0, 1), which helps where f is much flatter than lam.
        largest: The largest L_i. Set by `bind`.
        spread: 1 + q_m / m, q_m = (n - m) / (n - 1). Set by `bind`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.CohortIcgm(t.Nice(2)), problem, rounds=10)
        >>> trace.ledger.totals()["draws_random"], trace.ledger.totals()["draws_delegate"]
        (10, 0)
    """

    sampler: Sampler
    solver: LocalSolver = Gradient(steps=100, tolerance=0.0)
    lam: Positive | None = None
    beta: Share | None = None
    momentum: Proper = 0.3
    largest: Any = field(default=None, repr=False, kw_only=True)
    spread: Any = field(default=None, repr=False, kw_only=True)

    def bind(self, problem):
        size = cohort_size(self.sampler, problem.population)
        constants = problem.constants()
        if self.lam is None and constants is None:
            raise UserError(f"CohortIcgm needs lam: {type(problem).__name__} does not know how smooth its clients are")
        return replace(
            self,
            beta=size / problem.clients if self.beta is None else self.beta,
            largest=None if constants is None else float(max(constants.smoothness)),
            spread=1 + cohort_delta(1.0, problem.clients, size) ** 2,
        )

    def client_state(self, x):
        return zeros(x)

    def start(self, ask, x):
        zero = jnp.zeros((), jax.tree.leaves(x)[0].dtype)
        lam = Lam(zero, zero, zeros(x), x) if self.lam is None else None
        return CohortIcgmState(x, x, zeros(x), zeros(x), jnp.zeros((), "int32"), lam)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, old, g, c, rounds, lam = server
        first = rounds == 0
        beta = jnp.maximum(jnp.asarray(self.beta), 1 / (1 + rounds).astype(jnp.asarray(self.beta).dtype))
        seed = jax.random.bits(ask.key(), (), "uint32")
        measured = None if lam is None else (lam.older, seed, sketch(seed, lam.change))
        weight = self.lam if lam is None else self._weight(lam, rounds)
        replies = ask(self.sampler, self.move, (x, old, g, c, beta, weight, first, measured))
        ask.observe(replies)
        (_, change, deviation, gap), (_, _, total, _) = replies.average(), replies.total()
        g = add(add(add(g, c, beta), deviation, beta), change)
        new = CohortIcgmState(
            add(add(x, add(x, old, -1.0), self.momentum), replies.mean()[0]),
            x,
            g,
            jax.tree.map(lambda c, total: jnp.where(first, c, c + total), c, total),
            rounds + 1,
            None if lam is None else self._remeasured(lam, rounds, old, change, gap),
        )
        return if_any(replies, new, server)

    def _weight(self, lam: Lam, rounds) -> Float[Array, ""]:
        """Return lambda for the next steps."""
        measured = SAFETY * jnp.sqrt(lam.square / positive(lam.weight))
        return jnp.where(lam.weight > 0, measured, jnp.asarray(self.largest, measured.dtype))

    def _remeasured(self, lam: Lam, rounds, old: PyTree, change: PyTree, gap: Float[Array, ""]) -> Lam:
        """Return the estimate with `gap`, the mean square over the cohort, which is about the step from `older` to `old`."""
        step = norm(add(old, lam.older, -1.0))
        square = gap / (jnp.asarray(self.spread, gap.dtype) * jnp.square(positive(step)))
        moved = (rounds >= 2) & (step > 0)
        return Lam(
            jnp.where(moved, DECAY * lam.square + square, lam.square),
            jnp.where(moved, DECAY * lam.weight + 1, lam.weight),
            change,
            old,
        )

    @on_client
    def move(self, client, message):
        """y_i - x^t, grad f_i(x^t) - grad f_i(x^{t-1}), d_i, and the square of a difference by which delta is measured."""
        x, old, g, c, beta, lam, first, measured = message
        at, before = client.grad(x), client.grad(old)
        change = add(at, before, -1.0)
        deviation = add(add(before, g, -1.0), client.state, -1.0)
        pulled = add(add(add(before, g, -1.0), c, -beta), deviation, -beta)
        solved = self.solver.minimise(client, Tilt(pulled, lam, x), x)
        state = jax.tree.map(lambda c, d: jnp.where(first, c, c + d), client.state, deviation)
        moved, queries = add(solved.point, x, -1.0), solved.queries + 2
        if measured is None:
            return Done((moved, change, deviation, None), state, queries)
        older, seed, expected = measured
        seen = sketch(seed, add(before, client.grad(older), -1.0))
        return Done((moved, change, deviation, jnp.mean(jnp.square(seen - expected))), state, queries + 1)
