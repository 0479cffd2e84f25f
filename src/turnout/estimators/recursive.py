"""RG-SAGA, ZeroSARAH and RG-SVRG: a recursive gradient that leans on an unrecursive estimate G^t."""

from typing import ClassVar

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Share, record, static
from turnout.core.tree import add
from turnout.estimators.base import Estimate, coin, interpolate
from turnout.estimators.saga import Passes, Saga
from turnout.estimators.svrg import Svrg


@record
class RgSaga(Saga):
    """RG-SAGA of Cost-aware client selection, section 5.

    g^{t+1} = (1 - beta) g^t + beta G^t + sum_{i in S} (lambda_i / p_i) (grad f_i(x^{t+1}) - grad f_i(x^t)),
    G^t = b + sum_{i in S} (lambda_i / p_i) (grad f_i(x^t) - b_i), then b_i <- grad f_i(x^t) for i in S.

    Two vectors down, x^{t+1} and x^t, and two up, the difference and the change of b_i.

    Args:
        passes: Number of initial points x^0, x^1 at which all clients are asked: 0, 1 or 2. The pass at x^1 precedes the exchange
            of round 2.
        beta: Weight of G^t, in [0, 1]; None means m / n.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Icgm(t.Nice(2), t.RgSaga(), lam=5.0), problem, rounds=10)
        >>> totals = trace.ledger.totals()
        >>> totals["draws_arbitrary"], totals["draws_random"], totals["draws_delegate"]
        (8, 10, 10)
    """

    beta: Share | None = None

    cohort_defaults = {"beta": 1.0}

    keeps_new: ClassVar[bool] = False
    """Whether b_i becomes the gradient at x^{t+1} instead of x^t."""

    def step(self, ask, sampler, new, old, estimate):
        return self.step_with_change(ask, sampler, new, old, estimate)[0]

    def step_with_change(self, ask, sampler, new, old, estimate):
        g, b = estimate
        if self.passes == 2:
            b = ask.cond(ask.round == 2, lambda b: self.refreshed(ask, self.everyone, old, b).memory, lambda b: b, b)
        replies = ask(sampler, self.change, (new, old))
        ask.observe(replies)
        (change, deviation), (change_total, deviation_total) = replies.average(), replies.total()
        g = add(interpolate(g, add(b, deviation), self.beta), change)
        b = add(b, deviation_total)
        return Estimate(g, add(b, change_total) if self.keeps_new else b), change

    @on_client
    def change(self, client, message):
        """grad f_i(x^{t+1}) - grad f_i(x^t), and grad f_i(x^t) - b_i."""
        oracle = self.oracle(client)
        new, old = (oracle.grad(x) for x in message)
        state = client.state._replace(memory=new if self.keeps_new else old)
        return Done((add(new, old, -1.0), add(old, client.state.memory, -1.0)), state, queries=2)


@record
class ZeroSarah(RgSaga):
    """ZeroSARAH with cohorts (Li et al., 2021, Algorithm 1): as `RgSaga`, but b_i <- grad f_i(x^{t+1}) for i in S.

    Args:
        passes: As in `RgSaga`; none by default.
        beta: Weight of G^t, in [0, 1]; None means m / (2 n), as in the paper.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Icgm(t.Nice(2), t.ZeroSarah(), lam=5.0), problem, rounds=10)
        >>> trace.ledger.totals()["draws_arbitrary"]
        0
    """

    passes: Passes = static(default=0)

    cohort_defaults = {"beta": 0.5}
    keeps_new = True


@record
class RgSvrg(Svrg):
    """RG-SVRG of Cost-aware client selection, section 5.

    g^{t+1} = (1 - beta) g^t + beta G^t + sum_{i in S} (lambda_i / p_i) (grad f_i(x^{t+1}) - grad f_i(x^t)),
    G^t = grad f(w) + sum_{i in S} (lambda_i / p_i) (grad f_i(x^t) - grad f_i(w)), after w <- x^t with `probability` (t > 0).

    Three vectors down, x^{t+1}, x^t and w, and one up, as the server needs their weighted sum only.

    Args:
        probability: Probability of a full pass in a round, in (0, 1]; None means m / n.
        beta: Weight of G^t, in [0, 1]; None means m / n.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Icgm(t.Nice(2), t.RgSvrg(probability=0.1), lam=5.0), problem, rounds=10)
        >>> trace.ledger.totals()["draws_random"]
        10
    """

    beta: Share | None = None

    cohort_defaults = {"beta": 1.0, "probability": 1.0}

    def step(self, ask, sampler, new, old, estimate):
        due = coin(ask, self.probability) & (ask.round > 1)
        anchor = ask.cond(due, lambda anchor: self.anchored(ask, old, anchor), lambda anchor: anchor, estimate.memory)
        replies = ask(sampler, self.change, (new, old, anchor.point))
        ask.observe(replies)
        return Estimate(add(interpolate(estimate.gradient, anchor.gradient, self.beta), replies.average()), anchor)

    @on_client
    def change(self, client, message):
        """grad f_i(x^{t+1}) - grad f_i(x^t) + beta (grad f_i(x^t) - grad f_i(w))."""
        oracle = self.oracle(client)
        new, old, anchor = (oracle.grad(x) for x in message)
        return Done(add(add(new, old, -1.0), add(old, anchor, -1.0), self.beta), queries=3)
