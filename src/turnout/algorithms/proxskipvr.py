"""ProxSkip-VR: Scaffnew on batches, with the variance of the batches taken away."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from turnout.algorithms.scaffnew import PointAndVariate, Scaffnew
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, Fraction, record, static
from turnout.core.tree import add, where, zeros


class Anchored(NamedTuple):
    """A client's z_i and h_i as in Scaffnew, its anchor w_i, grad f_i(w_i), and whether that is yet to be computed."""

    last: PointAndVariate
    anchor: PyTree
    gradient: PyTree
    due: Int[Array, ""]


@record
class ProxSkipVr(Scaffnew):
    """ProxSkip-VR with L-SVRG (Malinovsky, Yi and Richtarik, 2022): Scaffnew whose local steps take batches.

    z_i <- z_i - lr (g_i - h_i) with g_i = grad f_B(z_i) - grad f_B(w_i) + grad f_i(w_i), B a random batch of rows of the client,
    then w_i <- z_i, that of before the step, with the probability `refresh`; all else as in `Scaffnew`. At first w_i = x_0.

    Both gradients of a step are of the same rows, so that x* is the fixed point. A local step takes two queries, and one more, on
    all rows, where w_i is new.

    For mu-strongly convex f_i, equal lambda_i, L-smooth convex losses of the single rows and lr <= 1 / (6 L), with
    s_i = E|grad f_B(w_i) - grad f_B(x*)|^2, q = `refresh` and h_i* = grad f_i(x*),
    Psi = sum_i |z_i - x*|^2 + (lr / p)^2 |h_i - h_i*|^2 + (4 lr^2 / q) s_i falls as
    E Psi_t <= max {1 - lr mu, 1 - p^2, 1 - q / 2}^t Psi_0 over t local steps, since
    E|g_i - h_i*|^2 <= 4 L D_i + 2 s_i and E s_i' <= (1 - q) s_i + 2 q L D_i, D_i = f_i(z_i) - f_i(x*) - <h_i*, z_i - x*>.

    Args:
        sampler: How many clients are asked at a time; a round is charged as ceil(n / m) arbitrary selections.
        lr: Step size of the clients, > 0.
        probability: p, the probability of a communication after a local step, in (0, 1].
        batch: Rows of a batch, drawn uniformly with replacement.
        refresh: Probability that w_i moves after a local step, in (0, 1]; the rows of a batch by those of a client balance the
            work of both.
        clients: The number of clients, which `bind` sets.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.ProxSkipVr(t.Nice(4), lr=0.05, probability=0.5, batch=1, refresh=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["draws_arbitrary"]
        (5, 10)
    """

    batch: Count = static()
    refresh: Fraction

    def client_state(self, x):
        return Anchored(PointAndVariate(x, zeros(x)), x, zeros(x), jnp.int32(1))

    @on_client
    def skip(self, client, message):
        """z_i after `steps` local steps from x, the mean owed to the client."""
        x, steps = message
        (z, h), anchor, gradient, due = client.state
        rate = jnp.asarray(self.probability / self.lr)
        h = jax.tree.map(lambda h, z, x: h - rate * (z - x), h, z, x)

        def step(carry):
            z, (anchor, gradient, due), k, queries = carry
            rows_key, coin_key = jax.random.split(jax.random.fold_in(client.key, k))
            rows = client.batch(rows_key, self.batch)
            # No or one query; a branch would copy the rows of all clients where these differ in size.
            gradient = client.loop(due, lambda _: client.grad(anchor), gradient)
            g = jax.tree.map(lambda new, old, whole: new - old + whole, rows.grad(z), rows.grad(anchor), gradient)
            moves = jax.random.bernoulli(coin_key, self.refresh)
            anchor = where(moves, z, anchor)
            return add(z, add(g, h, -1.0), -self.lr), (anchor, gradient, moves.astype("int32")), k + 1, queries + 2 + due

        z, anchored, _, queries = client.loop(steps, step, (x, (anchor, gradient, due), jnp.int32(0), jnp.int32(0)))
        return Done(z, Anchored(PointAndVariate(z, h), *anchored), queries)
