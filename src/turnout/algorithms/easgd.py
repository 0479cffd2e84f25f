"""EASGD: clients with models of their own, which an elastic force ties to a centre."""

from dataclasses import KW_ONLY

import jax

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_steps
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler


@record
class Easgd(Algorithm):
    """EASGD: elastic averaging (Zhang, Choromanska and LeCun, 2015, section 3 and Algorithm 1), for any sampler.

    Clients keep their x_i, x_0 at first. Those of S receive the centre x, reply with d_i = x_i - x, and take local steps

        x_i <- x_i - lr grad f_i(x_i) - alpha d_i,   then x_i <- x_i - lr grad f_i(x_i) in each further one;

    x <- x + beta sum_{i in S} (lambda_i / p_i) d_i, and the output is x.

    For convex f_i, one step and everyone, a fixed point x minimises sum_i lambda_i min_v (f_i(v) + (alpha / (2 lr)) |v - x|^2):
    it is x* where the f_i have one optimum in common. A small alpha lets clients explore, a large one draws them together.

    In the paper all p clients take part with equal weights, and beta = p alpha makes the forces on x and on the x_i opposite;
    with cohorts of m clients that is m alpha. A reply is about the point before the steps, so that the first one of a client that
    begins at x is 0. A client that is not asked takes no steps.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        alpha: How far a client moves towards the centre, in (0, 1]; the paper has beta / p.
        beta: How far the centre moves towards the clients, in (0, 1]; the default is the paper's.
        steps: Local steps tau, or a list with one number for each client; 5 by default.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Easgd(t.Nice(4), lr=0.05, alpha=0.2, steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"], trace.ledger.totals()["queries_total"]
        (20, 60)
    """

    sampler: Sampler
    lr: Positive
    alpha: Fraction
    beta: Fraction = 0.9
    _: KW_ONLY
    steps: Steps = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def client_state(self, x):
        return x

    def round(self, ask, x):
        replies = ask(self.sampler, self.explore, x)
        ask.observe(replies)
        return add(x, replies.average(), self.beta)

    @on_client
    def explore(self, client, x):
        """d_i."""
        distance = add(client.state, x, -1.0)

        def step(rows, carry):
            own, pull = carry
            return jax.tree.map(lambda x, g, d: x - self.lr * g - d, own, rows.grad(own), pull), zeros(pull)

        pull = jax.tree.map(lambda d: self.alpha * d, distance)
        (own, _), queries = local_steps(client, step, (client.state, pull), self.steps, self.batch, self.epochs)
        return Done(distance, own, queries)
