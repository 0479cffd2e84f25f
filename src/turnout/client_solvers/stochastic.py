"""A fixed number of passes with stochastic gradients on one client."""

from abc import abstractmethod
from typing import Any

from jax.flatten_util import ravel_pytree

from turnout import optimisers
from turnout.client_solvers.base import LocalSolver, SearchResult
from turnout.core.records import Count, Positive, record, static
from turnout.optimisers import Optimiser
from turnout.optimisers.base import hessian_probe


class Passes(LocalSolver):
    """Base of solvers that make passes over the shuffled rows, each step with the gradient of phi on the next `batch` rows."""

    batch: Any
    epochs: Any

    @abstractmethod
    def stepper(self) -> Optimiser:
        """Return the optimiser that turns gradients into steps."""

    def search(self, phi):
        optimiser = self.stepper()

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
    """Passes of steps of any optimiser, which starts anew in each call.

    Args:
        optimiser: The optimiser.
        batch: Rows of a step.
        epochs: Passes over the shuffled rows of the client.

    Examples:
        >>> import turnout as t
        >>> solver = t.client_solvers.Stochastic(t.optimisers.Adam(0.1), batch=1, epochs=5)
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedProxSppm(t.Nice(4), gamma=0.5, solver=solver), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"]
        100
    """

    optimiser: Optimiser
    batch: Count = static()
    epochs: Count

    def bind(self, problem):
        self.optimiser.check(problem)
        return self

    def stepper(self):
        return self.optimiser


@record
class Sgd(Passes):
    """Passes of stochastic gradient descent: w <- w - lr grad phi_B(w) for batches B of shuffled rows.

    Args:
        lr: Step size, > 0.
        batch: Rows of a step.
        epochs: Passes over the shuffled rows of the client.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> solver = t.client_solvers.Sgd(lr=0.1, batch=1, epochs=5)
        >>> t.run(t.FedProxSppm(t.Nice(4), gamma=0.5, solver=solver), problem, rounds=2).ledger.totals()["contacts"]
        8
    """

    lr: Positive
    batch: Count = static()
    epochs: Count

    def stepper(self):
        return optimisers.Sgd(1.0).with_lr_factor(self.lr)


@record
class Adam(Passes):
    """Passes of Adam (Kingma and Ba, 2015, Algorithm 1) with the gradients of phi on batches of shuffled rows.

    Args:
        lr: Step size, > 0.
        batch: Rows of a step.
        epochs: Passes over the shuffled rows of the client.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> solver = t.client_solvers.Adam(lr=0.1, batch=1, epochs=5)
        >>> t.run(t.FedProxSppm(t.Nice(4), gamma=0.5, solver=solver), problem, rounds=2).ledger.totals()["contacts"]
        8
    """

    lr: Positive
    batch: Count = static()
    epochs: Count

    def stepper(self):
        return optimisers.Adam(1.0).with_lr_factor(self.lr)
