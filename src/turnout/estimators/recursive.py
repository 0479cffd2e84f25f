"""The recursive gradient "RG" over an estimate G^t of another kind."""

from typing import ClassVar

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Share, record, static
from turnout.core.tree import add
from turnout.estimators.base import Estimate, coin, leant
from turnout.estimators.saga import Passes, Saga
from turnout.estimators.svrg import Svrg


@record
class RgSaga(Saga):
    """g^{t+1} = (1 - beta) g^t + beta G^t + sum_{i in S} (lambda_i / p_i) (grad f_i(x^{t+1}) - grad f_i(x^t)), G^t by `Saga`.

    RG-SAGA of cost-aware client selection, section 5: G^t = b + sum_{i in S} (lambda_i / p_i) (grad f_i(x^t) - b_i) of the same
    cohort S, then b_i <- grad f_i(x^t). Two vectors down, x^{t+1} and x^t, and two up, the difference and the change of b_i.
    `beta` is m / n unless given. A second pass, at x^1, is made just before the exchange of round 2.
    """

    beta: Share | None = None

    usual = {"beta": 1.0}

    keeps_new: ClassVar[bool] = False
    """Whether b_i becomes the gradient at x^{t+1} and not the one at x^t."""

    def step(self, ask, reach, new, old, estimate):
        return self.follow(ask, reach, new, old, estimate)[0]

    def follow(self, ask, reach, new, old, estimate):
        g, b = estimate
        if self.passes == 2:
            b = ask.cond(ask.round == 2, lambda b: self.renewed(ask, reach.everyone, old, b).memory, lambda b: b, b)
        replies = ask(reach.random, self.change, (new, old))
        ask.observe(replies)
        (moved, aside), (moved_b, aside_b) = replies.average(), replies.total()
        kept = add(b, aside_b)
        found = Estimate(add(leant(g, add(b, aside), self.beta), moved), add(kept, moved_b) if self.keeps_new else kept)
        return found, moved

    @on_client
    def change(self, client, message):
        """grad f_i(x^{t+1}) - grad f_i(x^t), and grad f_i(x^t) - b_i."""
        oracle = self.oracle(client)
        new, old = (oracle.grad(x) for x in message)
        kept = client.state._replace(memory=new if self.keeps_new else old)
        return Done((add(new, old, -1.0), add(old, client.state.memory, -1.0)), kept, queries=2)


@record
class ZeroSarah(RgSaga):
    """`RgSaga` but b_i <- grad f_i(x^{t+1}) for i in S, begun with a cohort: ZeroSARAH (Li et al., 2021, Algorithm 1).

    `beta` is m / (2 n) unless given, as there.
    """

    passes: Passes = static(default=0)

    usual = {"beta": 0.5}
    keeps_new = True


@record
class RgSvrg(Svrg):
    """g^{t+1} = (1 - beta) g^t + beta G^t + sum_{i in S} (lambda_i / p_i) (grad f_i(x^{t+1}) - grad f_i(x^t)), G^t by `Svrg`.

    RG-SVRG of cost-aware client selection, section 5: G^t = grad f(w) + sum_{i in S} (lambda_i / p_i) (grad f_i(x^t) - grad
    f_i(w)) of the same cohort S, once w has moved to x^t with `probability` (t > 0). Three vectors down, x^{t+1}, x^t and w, and
    one up, since the server wants nothing but their sum. `beta` and `probability` are m / n unless given.
    """

    beta: Share | None = None

    usual = {"beta": 1.0, "probability": 1.0}

    def step(self, ask, reach, new, old, estimate):
        due = coin(ask, self.probability) & (ask.round > 1)
        anchor = ask.cond(due, lambda anchor: self.moved(ask, reach, old, anchor), lambda anchor: anchor, estimate.memory)
        replies = ask(reach.random, self.change, (new, old, anchor.point))
        ask.observe(replies)
        return Estimate(add(leant(estimate.gradient, anchor.gradient, self.beta), replies.average()), anchor)

    @on_client
    def change(self, client, message):
        """grad f_i(x^{t+1}) - grad f_i(x^t) + beta (grad f_i(x^t) - grad f_i(w))."""
        oracle = self.oracle(client)
        new, old, anchor = (oracle.grad(x) for x in message)
        return Done(add(add(new, old, -1.0), add(old, anchor, -1.0), self.beta), queries=3)
