"""Variance-reduced stochastic gradients on one client."""

import jax
import jax.numpy as jnp
from jax import lax

from turnout.client_solvers.base import Found, LocalSolver
from turnout.core.records import Count, NonNegative, Positive, record, static


@record
class Svrg(LocalSolver):
    """w <- w - lr (grad phi_B(w) - grad phi_B(v) + grad phi(v)), v being w before each pass over batches B of shuffled rows.

    Johnson and Zhang (2013), with their option I and batches without replacement; it ends at |grad phi(v)| <= `tolerance` or
    after `epochs` passes. A client's oracle has no gradients of single rows to keep, hence SVRG and not SAGA.
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
        return Found(v, gradient, queries)
