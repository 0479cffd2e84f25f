"""CE-LGD: local descent of one random client along a recursive estimate of the gradient."""

from dataclasses import field

from turnout.algorithms.corrected_descent import corrected_descent
from turnout.algorithms.estimated import Estimated
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record
from turnout.core.tree import add
from turnout.samplers import Nice, Sampler


@record
class CeLgd(Estimated):
    """CE-LGD (Patel et al., 2022; Cost-aware client selection, appendix A).

    x+ is x after K = `steps` steps y <- y - lr u, u <- u + grad f_j(y+) - grad f_j(y) of one random client j, from u = v;
    then v <- grad f_S(x+) + (1 - rho) (v - grad f_S(x)), f_S = sum_{i in S} (lambda_i / p_i) f_i; v = grad f_S(x_0) at first.

    v is made by the `estimator`, by default `Storm` with beta = rho. As gradients of f_j are exact, u = v + grad f_j(y) -
    grad f_j(x). The iterates stop at a floor that the draws of S cause; a smaller rho forgets more slowly and goes lower. The
    paper's rounds begin with v; here each round ends with it, and the iterates are the same.

    Args:
        sampler: Draws the cohorts S of the estimator.
        lr: Step size of the client.
        steps: Number K of local steps.
        estimator: Makes v; any gradient estimator.
        one: Draws the client j.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.CeLgd(t.Nice(2), lr=0.02, steps=3), problem, rounds=10)
        >>> trace.ledger.totals()["exchanges"]
        21
    """

    lr: Positive
    steps: Count
    one: Sampler = field(default=Nice(1), repr=False, kw_only=True)

    def round(self, ask, server):
        x, estimate = server
        new = add(x, ask(self.one, self.move, (x, estimate.gradient)).mean())
        return new, self.estimator.step(ask, self.sampler, new, x, estimate)

    @on_client
    def move(self, client, message):
        """x+ - x."""
        x, v = message
        return Done(corrected_descent(client, x, client.grad(x), v, self.lr, self.steps), queries=self.steps)
