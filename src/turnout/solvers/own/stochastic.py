"""A fixed number of passes with stochastic gradients on one client."""

from abc import abstractmethod
from typing import Any

import jax

from turnout.records import Count, Positive, record, static
from turnout.solvers.own.base import Found, LocalSolver


@record
class Passes(LocalSolver):
    """`epochs` passes over the client's shuffled rows, each step with the gradient of phi on the next `batch` of them."""

    lr: Positive
    batch: Count = static()
    epochs: Count

    @abstractmethod
    def optimiser(self) -> Any:
        """Return the optax transformation that turns gradients into steps."""

    def search(self, phi):
        optimiser = self.optimiser()

        def step(batch, state):
            w, memory = state
            gradient = phi.of(batch).grad(w)
            # The library mixes types.
            with jax.numpy_dtype_promotion("standard"):
                change, memory = optimiser.update(gradient, memory, w)
            return w + change, memory

        first = phi.start, optimiser.init(phi.start)
        (w, _), batches = phi.client.passes(phi.client.key, self.epochs, self.batch, step, first)
        return Found(w, None, batches)


@record
class Sgd(Passes):
    """w <- w - lr grad phi_B(w), `epochs` times over the batches B of `batch` shuffled rows."""

    def optimiser(self):
        # Slow to import.
        import optax

        return optax.sgd(self.lr)


@record
class Adam(Passes):
    """Adam (Kingma and Ba, 2015, Algorithm 1) with the gradients of phi on batches of `batch` shuffled rows, `epochs` times."""

    def optimiser(self):
        # Slow to import.
        import optax

        return optax.adam(self.lr)
