"""Variance-reduced stochastic gradients on one client."""

import jax
import jax.numpy as jnp
from jax import lax

from turnout.client_solvers.base import LocalSolver, SearchResult
from turnout.core.records import Count, NonNegative, Positive, record, static


@record
class Svrg(LocalSolver):
    """SVRG with batches without replacement (Johnson and Zhang, 2013, option I).

    w <- w - lr (grad phi_B(w) - grad phi_B(v) + grad phi(v)), v being w before each pass over batches B of shuffled rows.

    Args:
        lr: Step size.
        batch: Rows of each batch.
        epochs: Limit on the passes.
        tolerance: Norm of grad phi(v) to stop at.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> solver = t.client_solvers.Svrg(lr=0.05, epochs=20)
        >>> t.run(t.PointSaga(t.Nice(4), solver, gamma=0.2), problem, rounds=10).ledger.totals()["arrivals"]
        40
    """

    lr: Positive
    batch: Count = static(default=1)
    epochs: Count = 100
    tolerance: NonNegative = 1e-6

    def search(self, phi):
        def unfinished(state):
            v, gradient, epochs, _ = state
            return (epochs < jnp.asarray(self.epochs, "int32")) & ~phi.reached(v, gradient, self.tolerance)

        def epoch(state):
            v, gradient, epochs, queries = state

            def step(batch, w):
                part = phi.of(batch)
                return w - self.lr * (part.grad(w) - part.grad(v) + gradient)

            w, batches = phi.client.passes(jax.random.fold_in(phi.client.key, epochs), 1, self.batch, step, v)
            return w, phi.grad(w), epochs + 1, queries + 2 * batches + 1

        zero = jnp.zeros((), "int32")
        v, gradient, _, queries = lax.while_loop(unfinished, epoch, (phi.start, phi.grad(phi.start), zero, zero + 1))
        return SearchResult(v, gradient, queries)
