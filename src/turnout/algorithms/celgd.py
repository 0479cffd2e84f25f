"""CE-LGD: local descent of one random client along a recursive estimate of the gradient."""

from turnout.algorithms.correction import corrected
from turnout.algorithms.followed import Followed
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record


@record
class CeLgd(Followed):
    """x+ is x after K = `steps` steps y <- y - lr u, u <- u + grad f_j(y+) - grad f_j(y) of one random client j from u = v;

    v <- grad f_S(x+) + (1 - rho) (v - grad f_S(x)), f_S = sum_{i in S} (lambda_i / p_i) f_i, v = grad f_S(x_0) at first.

    CE-LGD (Patel et al., 2022; cost-aware client selection, appendix A), v being the `estimator` "storm" with beta = rho. The
    gradients of f_j being exact, u = v + grad f_j(y) - grad f_j(x). It stops at a floor that the draws of S cause; a smaller rho
    forgets more slowly and goes lower.
    """

    lr: Positive
    steps: Count

    @on_client
    def move(self, client, message):
        x, v = message
        return Done(corrected(client, x, client.grad(x), v, self.lr, self.steps), queries=self.steps)
