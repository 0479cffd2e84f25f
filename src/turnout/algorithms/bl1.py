"""BL1: FedNL in which each client's Hessian is learned, and its gradient sent, in a basis of the span of its data."""

from dataclasses import field
from typing import NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.learned_bases import LearnedBases, in_full
from turnout.algorithms.learned_hessian import projected_step, side, with_mu
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Positive, record
from turnout.core.replies import if_any
from turnout.core.tree import add


class Bl1State(NamedTuple):
    """x, `hessian` = H, a triangle, and the clients' bases V_i."""

    x: PyTree
    hessian: Float[Array, " t"]
    bases: Float[Array, "n d r"]


@record
class Bl1(LearnedBases):
    """BL1, basis learning (Qian, Islamov, Safaryan and Richtarik, 2022, Algorithm 1), for any sampler.

    x <- x - H_mu^-1 sum_{i in S} (lambda_i / p_i) grad f_i(x), H = sum_i lambda_i (ridge I + V_i L_i V_i'), then
    L_i <- L_i + C(V_i' (grad^2 f_i(x) - ridge I) V_i - L_i) for i in S.

    H_mu and C are those of `FedNl`. The columns of V_i [d, r] are orthonormal and span the data of client i: for a generalised
    linear model f_i(x) = phi_i(A_i x) + (ridge / 2) |x|^2 the rows of A_i, so that nothing is lost, r being the rank of A_i at
    least. A client finds them in its first Hessian; a pass sends V_i and r eigenvalues, d r + r numbers. Then a reply has the r
    numbers V_i' (grad f_i(x) - ridge x) for the gradient and the payload of C for r (r + 1) / 2 numbers. A client that leaves the
    span of V_i ends the run. With r = d this is `FedNl` with option "I" and a codec that does not depend on the basis, such as
    `Eigenpairs`, whose theorem holds in any basis.

    The paper has full participation, compresses messages too, with Newton steps from the point that clients have, and leaves
    gradients out by chance. Here messages are compressed by `Exchange`.

    Args:
        sampler: Who takes part in each round.
        codec: C, of triangles of r x r matrices.
        rank: r, at least the rank of the data of each client; None means d.
        mu: mu, > 0; None means sum_i lambda_i mu_i of the problem.
        ridge: Weight of the regulariser, >= 0; None means min_i mu_i of the problem, 0 where it is not known.
        first: The first L_i: that of the "hessian" at the first x, or "zero".
        everyone: Sampler of the first pass. Set by `bind`.
        clients: The number of clients. Set by `bind`.

    Raises:
        UserError: Where the problem has no second derivatives, mu is not known, or r > d.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.Bl1(t.Full(), t.codecs.Eigenpairs(rank=1)), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]  # 8 clients, 36 + 6 numbers, then 5 times 6 numbers, a vector and its eigenvalue
        6848
    """

    mu: Positive | None = field(default=None, kw_only=True)

    def bind(self, problem):
        return with_mu(super().bind(problem), problem)

    def start(self, ask, x):
        replies = ask(self.everyone, self.begin, x)
        return Bl1State(x, self.first_hessian(replies, x), self.bases(replies, x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        flat, unravel = ravel_pytree(server.x)

        def whole(i, reply):
            gradient, change = reply
            basis = server.bases[i]
            return unravel(basis @ gradient + jnp.asarray(self.ridge, flat.dtype) * flat), in_full(basis, change)

        replies = self.ask_in_bases(ask, self.sampler, self.difference, server.x).map(whole)
        ask.observe(replies)
        x = add(server.x, projected_step(server.hessian, self.mu, replies.average()[0]))
        return if_any(replies, Bl1State(x, server.hessian + replies.total()[1], server.bases), server)

    @on_client
    def difference(self, client, message):
        """V_i' (grad f_i(x) - ridge x), and the payload of the change of L_i."""
        x, key = message
        gradient, hessian, missed = self.oracle(client, x)
        payload, learned = self.learn(client, hessian, client.state.learned, key)
        return Done((gradient, payload), client.state._replace(learned=learned), queries=1 + side(x), missed=missed)
