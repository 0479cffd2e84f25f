"""BL2: FedNL-PP in which each client's quadratic model is learned, and sent, in a basis of the span of its data."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.fednl_pp import FedNlPpState, Model, solved
from turnout.algorithms.learned_bases import LearnedBases, in_full
from turnout.algorithms.learned_hessian import side
from turnout.core.algorithm import on_client
from turnout.core.client import Client, Done
from turnout.core.records import record
from turnout.core.replies import if_any
from turnout.core.tree import add
from turnout.core.triangle import symmetric


class ModelInBasis(NamedTuple):
    """A client's basis V_i, the triangle of its L_i, V_i' (g_i - l_i w_i), and l_i."""

    basis: Float[Array, "d r"]
    learned: Float[Array, " s"]
    vector: Float[Array, " r"]
    shift: Float[Array, ""]


class Bl2State(NamedTuple):
    """x with the sums g, l and H, the clients' bases V_i, and their w_i and l_i."""

    solved: FedNlPpState
    bases: Float[Array, "n d r"]
    points: Float[Array, "n d"]
    shifts: Float[Array, " n"]


@record
class Bl2(LearnedBases):
    """BL2, basis learning with partial participation (Qian, Islamov, Safaryan and Richtarik, 2022, Algorithm 2), any sampler.

    x = (H + l I)^-1 g, then for i in S: L_i <- L_i + C(V_i' (grad^2 f_i(x) - ridge I) V_i - L_i), H_i = ridge I + V_i L_i V_i',
    l_i <- |H_i - grad^2 f_i(x)|, g_i <- (H_i + l_i I) x - grad f_i(x); H, l and g are the sums of lambda_i times theirs.

    This is `FedNlPp` with the bases V_i of `Bl1`: a reply has l_i, r numbers for g_i, of which only
    V_i' (g_i - l_i w_i) is not known to the server, w_i being the point that client i was last asked at, and the payload of C for
    r (r + 1) / 2 numbers. A pass sends V_i and the rest at first. The bound of `FedNlPp` holds. Messages are compressed by
    `Exchange`; the paper also leaves out changes of g_i by chance.

    Args:
        sampler: Who takes part in each round.
        codec: C, of triangles of r x r matrices.
        rank: r, at least the rank of the data of each client; None means d.
        ridge: Weight of the regulariser, >= 0; None means min_i mu_i of the problem, 0 where it is not known.
        first: The first L_i: that of the "hessian" at the first x, or "zero".
        everyone: Sampler of the first pass. Set by `bind`.
        clients: The number of clients. Set by `bind`.

    Raises:
        UserError: Where the problem has no second derivatives, r > d, or clients are there by chance only.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.Bl2(t.Nice(2), t.codecs.Eigenpairs(rank=1)), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        6
    """

    def client_state(self, x):
        flat, (basis, learned) = ravel_pytree(x)[0], self.unit_basis(x)
        return ModelInBasis(basis, learned, jnp.zeros(self.rank, flat.dtype), jnp.zeros((), flat.dtype))

    def start(self, ask, x):
        flat, unravel = ravel_pytree(x)
        replies = ask(self.everyone, self.begin_model, x)
        own, models = replies.map(lambda _, reply: reply[0]), replies.map(lambda _, reply: reply[1])
        bases = self.bases(own, x)
        vector, shift = models.map(lambda i, own: (unravel(bases[i] @ own[0] + own[1] * flat), own[1])).total()
        points = jnp.broadcast_to(flat, (self.clients, flat.size))
        shifts = jnp.zeros(self.clients, flat.dtype).at[self.who_answered(replies)].set(models.values[1], mode="drop")
        return Bl2State(solved(Model(vector, shift, self.first_hessian(own, x))), bases, points, shifts)

    def output(self, server):
        return server.solved.x

    def round(self, ask, server):
        (x, model), bases, points, shifts = server
        flat, unravel = ravel_pytree(x)
        replies = self.ask_in_bases(ask, self.sampler, self.difference, x)
        ask.observe(replies)

        def change(i, reply):
            (vector, shift), learned = reply
            moved = (shifts[i] + shift) * flat - shifts[i] * points[i]
            return Model(unravel(bases[i] @ vector + moved), shift, in_full(bases[i], learned))

        new = solved(add(model, replies.map(change).total()))
        ids = self.who_answered(replies)
        points = points.at[ids].set(flat, mode="drop")
        shifts = shifts.at[ids].add(replies.values[0][1], mode="drop")
        return if_any(replies, Bl2State(new, bases, points, shifts), server)

    @on_client
    def begin_model(self, client, x):
        """V_i, the diagonal of the first L_i, or None where it is zero, V_i' (g_i - l_i w_i) and l_i."""
        own, values, missed = self.begin_with(client, x)
        state, _, _ = self._model(client.with_state(own), x, None)
        reply = (state.basis, values if self.first == "hessian" else None), (state.vector, state.shift)
        return Done(reply, state, queries=1 + side(x), missed=missed)

    @on_client
    def difference(self, client, message):
        """The changes of V_i' (g_i - l_i w_i) and of l_i, and the payload of that of L_i."""
        (x, key), old = message, client.state
        state, payload, missed = self._model(client, x, key, learning=True)
        change = state.vector - old.vector, state.shift - old.shift
        return Done((change, payload), state, queries=1 + side(x), missed=missed)

    def _model(self, client: Client, x: PyTree, key, learning: bool = False) -> tuple[ModelInBasis, PyTree, Any]:
        """Return the model of f_i at x, the payload of the change of L_i, and whether f_i has left the span of V_i."""
        gradient, hessian, missed = self.oracle(client, x)
        basis, learned = client.state[:2]
        payload, learned = self.learn(client, hessian, learned, key) if learning else (None, learned)
        vector = symmetric(learned) @ (basis.T @ ravel_pytree(x)[0]) - gradient
        return ModelInBasis(basis, learned, vector, jnp.linalg.norm(learned - hessian)), payload, missed
