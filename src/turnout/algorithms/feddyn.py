"""FedDyn: federated learning with dynamic regularisation."""

from turnout.algorithms.pointsaga import PointSaga
from turnout.core.records import record
from turnout.core.tree import add


@record
class FedDyn(PointSaga):
    """x_i = argmin_w f_i(w) - <g_i, w> + (lambda / 2) |w - x|^2 and g_i <- g_i - lambda (x_i - x) for i in S, g_i = 0 at first,

    h <- h - lambda sum_{i in S} lambda_i (x_i - x) and x <- mean_{i in S} x_i - h / lambda, with lambda = 1 / `gamma`.

    FedDyn (Acar et al., 2021, Algorithm 1; cost-aware client selection, appendix A, whose formula for h lacks brackets). It is
    `PointSaga` with cohorts, z there being x here, but for what is handed out: x here and the mean of x_i there. h is always
    sum_i lambda_i g_i, and g_i = grad f_i(x_i) for exact x_i. That g_i = 0 at first is what the paper's first pass for
    grad f_i(x_i) = 0 leads to.
    """

    def output(self, server):
        return add(server.x, server.variate, -self.gamma)
