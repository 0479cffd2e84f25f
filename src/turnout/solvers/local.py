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
    """Local gradient descent in a cohort: LocalGD of Cohort Squeeze, table 2, or FedLin (Mitra et al., 2021, Algorithm 1).

    y <- mean_{i in S} z_i, where z_i is y after local steps z <- z - lr grad phi_i(z), phi_i = f_i + |. - x|^2 / (2 gamma W).

    The weighted mean of the phi_i is phi / W. Without `corrected` a step is one exchange, and more local steps end further from
    the prox. With it a step is two exchanges: the first one is for grad phi(y), and the local steps use
    grad phi_i(z) - grad phi_i(y) + grad phi(y) / W, so that the prox is their fixed point.

    Args:
        smoothness: L; None takes max_i L_i of the problem.
        convexity: mu; None takes min_i mu_i of the problem.
        steps: Local steps of each client.
        lr: Step size, > 0; None means 1 / (L + 1 / (gamma W)).
        corrected: Whether the local steps are corrected.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.LocalGd(steps=3), gamma=0.5, inner=2), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
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
class Giant(LineSearch):
    """Means of the clients' Newton directions: GIANT (Wang et al., 2018, Algorithm 1).

    y <- y - a mean_i (grad^2 phi_i(y))^-1 grad phi(y) / W. Clients solve their systems by conjugate gradients (lineax).

    Each point tried is one exchange for the gradient, and each point accepted one more for the direction. The first `a` tried is
    twice the last one accepted, at most 1.

    Args:
        smoothness: L; None takes max_i L_i of the problem.
        convexity: mu; None takes min_i mu_i of the problem.
        products: Products with the Hessian that a client makes at most for one direction.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.Giant(), gamma=0.5, inner=2), problem, rounds=3)
        >>> trace.x.shape
        (3,)
    """

    products: Count = 50

    needs_hessian = True

    def initial_memory(self, phi):
        return jnp.ones((), phi.centre.dtype)

    def direction(self, ask, phi, state, new, reply):
        full = self.full_step(ask, phi, new)
        # The memory is the length of the last full step. The accepted step divided by that is the last a.
        last = jnp.where(jnp.isfinite(state.value), jnp.linalg.norm(state.step) / positive(state.memory), 1)
        return jnp.linalg.norm(full), jnp.minimum(1, 2 * last) * full

    def full_step(self, ask, phi, new):
        """Return the step for a = 1 [d].

        Args:
            ask: Access to the clients.
            phi: The subproblem.
            new: State at the point that was just accepted.
        """
        share = positive(phi.weight)
        y, aim = phi.unravel(new.y), phi.unravel(new.gradient / share)
        replies = exchange(ask, phi, self.local_direction, (y, aim, phi.convexity / share))
        return -ravel_pytree(weighted_mean(replies, jax.tree.map(jnp.zeros_like, y)))[0]

    @on_client
    def local_direction(self, client, message):
        """(grad^2 f_i(y) + pull I)^-1 aim."""
        y, aim, pull = message
        value, products = self.newton_direction(client, y, aim, pull)
        return Done(value, queries=products)

    def newton_direction(self, client, y, aim, pull):
        """Return (grad^2 f_i(y) + pull I)^-1 aim, and the number of products with the Hessian.

        Args:
            client: Client i.
            y: Where the Hessian is taken.
            aim: The right side.
            pull: Curvature of the proximal term.
        """
        # Slow to import.
        import lineax

        operator = lineax.FunctionLinearOperator(
            lambda v: jax.tree.map(lambda h, v: h + pull * v, client.hvp(y, v), v),
            jax.eval_shape(lambda: aim),
            lineax.positive_semidefinite_tag,
        )
        solver = lineax.CG(rtol=1e-12, atol=1e-12, max_steps=self.products)
        solution = lineax.linear_solve(operator, aim, solver, throw=False)
        return solution.value, solution.stats["num_steps"]


@record
class LocalNewton(Giant):
    """Several Newton steps at each client, with a line search for all (Bischoff et al., 2023, with global line search).

    y <- y + a mean_i (z_i - y), where z_i is y after the steps z <- z - (grad^2 phi_i(z))^-1 grad phi_i(z) on the client's own
    phi_i(z) = f_i(z) + |z - x|^2 / (2 gamma W). Exchanges and `a` are those of `Giant`. Where the mean is no descent direction of
    phi, the step is -grad phi / (W L + 1 / gamma).

    Args:
        smoothness: L; None takes max_i L_i of the problem.
        convexity: mu; None takes min_i mu_i of the problem.
        products: Products with the Hessian that a client makes at most for one step.
        steps: Newton steps of a client.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.LocalNewton(steps=2), gamma=0.5, inner=2), problem, rounds=3)
        >>> trace.x.shape
        (3,)
    """

    steps: Count = 3

    def full_step(self, ask, phi, new):
        y, x = phi.unravel(new.y), phi.unravel(phi.centre)
        replies = exchange(ask, phi, self.local_steps, (y, x, phi.convexity / positive(phi.weight)))
        return ravel_pytree(weighted_mean(replies, jax.tree.map(jnp.zeros_like, y)))[0]

    @on_client
    def local_steps(self, client, message):
        """z_i - y."""
        y, x, pull = message

        def step(carry):
            z, queries = carry
            gradient = jax.tree.map(lambda g, z, x: g + pull * (z - x), client.grad(z), z, x)
            direction, products = self.newton_direction(client, z, gradient, pull)
            return jax.tree.map(jnp.subtract, z, direction), queries + jnp.asarray(products, "int32") + 1

        z, queries = client.loop(self.steps, step, (y, jnp.asarray(0, "int32")))
        return Done(jax.tree.map(jnp.subtract, z, y), queries=queries)
