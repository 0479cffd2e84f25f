"""SHED: Newton steps with Hessians whose eigenvectors arrive a few at a time, the largest first."""

from dataclasses import KW_ONLY, replace
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from turnout.algorithms.fednl_ls import backtrack
from turnout.algorithms.learned_hessian import check_second_derivatives, side, zero_triangle
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Fraction, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add
from turnout.core.triangle import symmetric, triangle
from turnout.samplers import Sampler
from turnout.samplers.full_pass import full_pass

FIBONACCI = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584, 4181, 6765, 10946, 17711, 28657, 46368]
"""The rounds of renewals."""


class Pairs(NamedTuple):
    """Eigenvalues, the largest first, and eigenvectors as columns, zero where the server has none; rho; how many it has."""

    values: Float[Array, " d"]
    vectors: Float[Array, "d d"]
    rho: Float[Array, ""]
    sent: Int[Array, ""]


class ShedState(NamedTuple):
    """x, `hessian` = H, a triangle, and what the server has of each client [n, ...]."""

    x: PyTree
    hessian: Float[Array, " t"]
    pairs: Pairs


@record
class Shed(Algorithm):
    """SHED (Dal Fabbro, Dey, Rossi and Schenato, 2022), with the same number of eigenvectors from all clients.

    x <- x + gamma^s d, d = -H^-1 grad f(x), H = sum_i lambda_i H_i, by the line search of `FedNlLs`;
    H_i = sum_{j <= q} (v_j - rho_i) u_j u_j' + rho_i I, rho_i = v_{q+1},

    with the eigenvalues v_1 >= v_2 >= ... and eigenvectors u_j of grad^2 f_i at the point of the last renewal. In each round
    clients send f_i(x), grad f_i(x) and the next `pairs` of v_j and u_j, so that q grows by as many; then rho_i, and, for each
    trial of the search, f_i there. In a renewal, a round whose number is of Fibonacci's 1, 2, 3, 5, 8, ..., clients compute their
    eigenvectors anew and q starts again from 0. A client that has sent all sends zeros. All clients take part, as many at a time
    as the sampler draws.

    H_i is at least the Hessian that it approximates, so that steps are safe. On quadratics, without renewals, with v_d the least
    eigenvalue of client i,

        f(x_{t+1}) - f(x*) <= (1 - min_i v_d / rho_i)^2 (f(x_t) - f(x*)),

    and the step is exact once q >= d - 1. Proof: v_d / rho_i H_i <= grad^2 f_i <= H_i, so that H^-1/2 grad^2 f H^-1/2 has
    eigenvalues between the least v_d / rho_i and 1, and the first trial is accepted, as c <= 1 / 2.

    Args:
        sampler: How many clients are asked at a time; a round is charged as ceil(n / m) arbitrary selections.
        pairs: Eigenvectors that a client sends in a round.
        renewals: "fibonacci", or "never" after the first round, for quadratics.
        decrease: c, the share of the decrease promised by the slope that a step must bring, at most 1 / 2 for fast steps near x*.
        shrink: gamma, in (0, 1).
        clients: The number of clients. Set by `bind`.

    Raises:
        UserError: Where the problem has no second derivatives, or clients are available by chance only.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=4, seed=0)
        >>> trace = t.run(t.Shed(t.Full(), pairs=3, renewals="never"), problem, rounds=1, metrics=("gap",))
        >>> bool(trace.frame["gap"][-1] < 1e-10)  # 3 of 4 eigenvectors, and the last eigenvalue
        True
    """

    sampler: Sampler
    pairs: Count = static(default=1)
    renewals: Literal["fibonacci", "never"] = static(default="fibonacci")
    _: KW_ONLY
    decrease: Fraction = 0.25
    shrink: Fraction = 0.5
    clients: Count | None = static(default=None, repr=False)

    cohorts_per_round = None

    def bind(self, problem):
        check_second_derivatives(self, problem)
        return replace(self, sampler=full_pass(self.sampler, problem.population), clients=problem.clients)

    def client_state(self, x):
        flat = ravel_pytree(x)[0]
        zero = jnp.zeros_like(flat)
        return Pairs(zero, jnp.zeros((flat.size, flat.size), flat.dtype), jnp.zeros((), flat.dtype), jnp.zeros((), "int32"))

    def start(self, ask, x):
        pairs = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (self.clients, *leaf.shape)), self.client_state(x))
        return ShedState(x, zero_triangle(x), pairs)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        rounds = FIBONACCI if self.renewals == "fibonacci" else FIBONACCI[:1]
        renewal = jnp.any(jnp.asarray(rounds, "int32") == ask.round)
        replies = ask(self.sampler, self.share, (server.x, renewal))
        ask.observe(replies)

        def extended(i, own):
            old = jax.tree.map(lambda leaf: leaf[i], server.pairs)
            new = _extended(old, renewal, *own[2:])
            return new, _hessian(new) - _hessian(old)

        known = replies.map(extended)
        hessian = server.hessian + known.map(lambda _, pair: pair[1]).total()
        value, gradient = replies.map(lambda _, own: own[:2]).average()
        flat, unravel = ravel_pytree(gradient)
        direction = -jnp.linalg.solve(symmetric(hessian), flat)
        values = replies.map(lambda _, own: own[0])
        length = backtrack(self, ask, values, server.x, unravel(direction), jnp.vdot(flat, direction), value)
        places = jnp.where(replies.answered, replies.cohort.ids, self.clients)
        pairs = jax.tree.map(lambda all, own: all.at[places].set(own, mode="drop"), server.pairs, known.values[0])
        return if_any(replies, ShedState(add(server.x, unravel(direction), length), hessian, pairs), server)

    @on_client
    def share(self, client, message):
        """f_i(x), grad f_i(x), the next eigenvalues and eigenvectors, and rho_i."""
        x, renewal = message
        value, gradient = client.value_and_grad(x)

        def renewed(state):
            values, vectors = jnp.linalg.eigh(client.hessian(x))
            return Pairs(values[::-1], vectors[:, ::-1], state.rho, jnp.zeros_like(state.sent))

        own = client.cond(renewal, renewed, lambda state: state, client.state)
        places = own.sent + jnp.arange(self.pairs, dtype="int32")
        rho = own.values[jnp.minimum(own.sent + self.pairs, own.values.size - 1)]
        values = own.values.at[places].get(mode="fill", fill_value=0)
        vectors = own.vectors.at[:, places].get(mode="fill", fill_value=0)
        state = own._replace(rho=rho, sent=jnp.minimum(own.sent + self.pairs, own.values.size).astype("int32"))
        return Done((value, gradient, values, vectors, rho), state, queries=1 + jnp.where(renewal, side(x), 0))

    @on_client
    def value(self, client, y):
        """f_i(y)."""
        return Done(client.value(y))


def _extended(old: Pairs, renewal, values, vectors, rho) -> Pairs:
    """Return what the server has of a client after its reply."""
    old = jax.tree.map(lambda leaf: jnp.where(renewal, jnp.zeros_like(leaf), leaf), old)
    places = old.sent + jnp.arange(values.size, dtype="int32")
    known = jnp.minimum(old.sent + values.size, old.values.size).astype("int32")
    return Pairs(old.values.at[places].set(values, mode="drop"), old.vectors.at[:, places].set(vectors, mode="drop"), rho, known)


def _hessian(pairs: Pairs) -> Float[Array, " t"]:
    """Return the triangle of H_i; vectors of 0 add nothing."""
    identity = jnp.eye(pairs.values.size, dtype=pairs.values.dtype)
    return triangle((pairs.vectors * (pairs.values - pairs.rho)[None]) @ pairs.vectors.T + pairs.rho * identity)
