"""Cohort solvers whose clients work by themselves between exchanges."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import positive
from turnout.solvers.base import CohortSolver, StepResult, exchange, weighted_mean
from turnout.solvers.line_search import LineSearch


@record
class LocalGd(CohortSolver):
    """y <- the cohort's mean of z_i, each z_i after `steps` local steps z <- z - lr grad phi_i(z) from y.

    phi_i = f_i + |. - x|^2 / (2 gamma W), whose weighted mean is phi / W. With `corrected` a step is two exchanges: the first
    brings grad phi(y), and the local steps use grad phi_i(z) - grad phi_i(y) + grad phi(y) / W, so that the prox itself is their
    fixed point (FedLin, Mitra et al., 2021, Algorithm 1). Without it a step is one exchange, and more local steps end further
    from the prox: LocalGD of Cohort Squeeze, table 2. `lr` None means 1 / (L + 1 / (gamma W)).
    """

    steps: Count = 5
    lr: Positive | None = None
    corrected: bool = static(default=True)

    def start(self, phi, memory):
        return phi.centre

    def step(self, ask, phi, state):
        pull = phi.convexity / positive(phi.weight)
        lr = positive(phi.weight) / self.bounds(phi)[1] if self.lr is None else jnp.asarray(self.lr)
        y = phi.unravel(state)
        if not self.corrected:
            replies = exchange(ask, phi, self.descend, (y, phi.unravel(phi.centre), pull, lr))
            return StepResult(ravel_pytree(weighted_mean(replies, y))[0], state, jnp.full_like(state, jnp.inf))
        gradient = phi.gradient(state, exchange(ask, phi, self.gradient, y).average())
        aim = phi.unravel(gradient / positive(phi.weight))
        replies = exchange(ask, phi, self.descend_corrected, (y, aim, pull, lr))
        return StepResult(ravel_pytree(weighted_mean(replies, y))[0], state, gradient)

    def solution(self, state):
        return state

    @on_client
    def descend(self, client, message):
        """z after the local steps on phi_i from y."""
        y, x, pull, lr = message

        def step(z):
            return jax.tree.map(lambda z, g, x: z - lr * (g + pull * (z - x)), z, client.grad(z), x)

        return Done(client.loop(self.steps, step, y), queries=self.steps)

    @on_client
    def descend_corrected(self, client, message):
        """z after the local steps from y, corrected so that all clients aim at the minimiser of phi."""
        y, aim, pull, lr = message
        at_y = client.grad(y)

        def step(z):
            return jax.tree.map(lambda z, g, b, a, y: z - lr * (g - b + a + pull * (z - y)), z, client.grad(z), at_y, aim, y)

        return Done(client.loop(self.steps, step, y), queries=self.steps + 1)


@record
class LocalNewton(LineSearch):
    """y <- y - a mean_i (grad^2 phi_i(y))^-1 grad phi(y) / W, each client solving its own system by conjugate gradients (lineax).

    The globally improved approximate Newton method (GIANT, Wang et al., 2018, Algorithm 1): one exchange for the gradient at each
    point tried, and one more for the direction at each point accepted. The first `a` tried is twice the last accepted, at most 1.
    """

    products: Count = 50

    needs_hessian = True

    def initial_memory(self, phi):
        return jnp.ones((), phi.centre.dtype)

    def direction(self, ask, phi, state, new, reply):
        share = positive(phi.weight)
        y, aim = phi.unravel(new.y), phi.unravel(new.gradient / share)
        replies = exchange(ask, phi, self.local_direction, (y, aim, phi.convexity / share))
        full = -ravel_pytree(weighted_mean(replies, jax.tree.map(jnp.zeros_like, y)))[0]
        # The memory is the length of the last full step, next to which the step accepted shows how much of it was good.
        last = jnp.where(jnp.isfinite(state.value), jnp.linalg.norm(state.step) / positive(state.memory), 1)
        return jnp.linalg.norm(full), jnp.minimum(1, 2 * last) * full

    @on_client
    def local_direction(self, client, message):
        """(grad^2 f_i(y) + pull I)^-1 aim."""
        # Slow to import.
        import lineax

        y, aim, pull = message
        operator = lineax.FunctionLinearOperator(
            lambda v: jax.tree.map(lambda h, v: h + pull * v, client.hvp(y, v), v),
            jax.eval_shape(lambda: aim),
            lineax.positive_semidefinite_tag,
        )
        solver = lineax.CG(rtol=1e-12, atol=1e-12, max_steps=self.products)
        found = lineax.linear_solve(operator, aim, solver, throw=False)
        return Done(found.value, queries=found.stats["num_steps"])
