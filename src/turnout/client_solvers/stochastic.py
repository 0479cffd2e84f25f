"""A fixed number of passes with stochastic gradients on one client."""

from abc import abstractmethod
from typing import Any

import jax
from jax.flatten_util import ravel_pytree

from turnout import optimisers
from turnout.client_solvers.base import LocalSolver, SearchResult
from turnout.core.records import Count, Positive, record, static
from turnout.optimisers import Optimiser
from turnout.optimisers.base import hessian_probe


class Passes(LocalSolver):
    """`epochs` passes over the client's shuffled rows, each step with the gradient of phi on the next `batch` of them."""

    batch: Any
    epochs: Any

    @abstractmethod
    def chosen(self) -> Optimiser:
        """Return the optimiser that turns gradients into steps."""

    def search(self, phi):
        optimiser = self.chosen()

        def step(batch, carry):
            (w, state), part = carry, phi.of(batch)
            x = phi.unravel(w)
            curvature = hessian_probe(lambda v: phi.unravel(part.hvp(w, ravel_pytree(v)[0])), x, phi.client.key)
            x, state = optimiser.step(x, phi.unravel(part.grad(w)), state, curvature)
            return ravel_pytree(x)[0], state

        first = phi.start, optimiser.start(phi.unravel(phi.start))
        (w, _), batches = phi.client.passes(phi.client.key, self.epochs, self.batch, step, first)
        return SearchResult(w, None, optimiser.queries * batches)


@record
class Stochastic(Passes):
    """`epochs` passes of steps of any `optimiser`, begun anew, with the gradients of phi on batches of `batch` shuffled rows."""

    optimiser: Optimiser
    batch: Count = static()
    epochs: Count

    def bind(self, problem):
        self.optimiser.check(problem)
        return self

    def chosen(self):
        return self.optimiser


@record
class Sgd(Passes):
    """w <- w - lr grad phi_B(w), `epochs` times over the batches B of `batch` shuffled rows."""

    lr: Positive
    batch: Count = static()
    epochs: Count

    def chosen(self):
        return _rated(optimisers.Sgd(1.0), self.lr)


@record
class Adam(Passes):
    """Adam (Kingma and Ba, 2015, Algorithm 1) with the gradients of phi on batches of `batch` shuffled rows, `epochs` times."""

    lr: Positive
    batch: Count = static()
    epochs: Count

    def chosen(self):
        return _rated(optimisers.Adam(1.0), self.lr)


def _rated(optimiser: Optimiser, lr) -> Optimiser:
    """Return the `optimiser` with the rate `lr`, which may be traced: its first leaf."""
    return jax.tree.unflatten(jax.tree.structure(optimiser), [lr, *jax.tree.leaves(optimiser)[1:]])
