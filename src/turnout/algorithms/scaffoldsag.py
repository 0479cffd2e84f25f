"""SCAFFOLD with two exchanges a round: clients descend along SAG's estimate, which has their new gradients in it."""

from dataclasses import field, replace
from typing import NamedTuple

from jaxtyping import PyTree

from turnout.algorithms.corrected_descent import corrected_descent
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record
from turnout.core.tree import add, zeros
from turnout.samplers import Full, Sampler
from turnout.samplers.full_pass import full_pass


class ScaffoldSagState(NamedTuple):
    """The parameters x, and `variate` = b = sum_i lambda_i b_i."""

    x: PyTree
    variate: PyTree


class ClientVariate(NamedTuple):
    """The parameters x that a client received last, and `gradient` = b_i = grad f_i(x); zero before that."""

    x: PyTree
    gradient: PyTree


@record
class ScaffoldSag(Algorithm):
    """SCAFFOLD of Cost-aware client selection, appendix A.

    b_i <- grad f_i(x) for i in S, b = sum_i lambda_i b_i, x <- mean_{i in S} y_i, y_i being x after K = `steps` steps

        y <- y - lr (grad f_i(y) - grad f_i(x) + b).

    b_i = grad f_i(x_0) at first, by a full pass. S is asked for b_i and again for y_i, one vector each way both times; clients
    whose first reply was lost are not asked again. `Scaffold` with option "I" makes one exchange of two vectors instead, and
    takes its steps along b of the previous round.

    Args:
        sampler: Draws the cohort S of each round.
        lr: Step size of the clients.
        steps: Number K of local steps.
        everyone: Sampler of the full pass. Set by `bind`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.ScaffoldSag(t.Nice(2), lr=0.02, steps=3), problem, rounds=10)
        >>> trace.ledger.totals()["exchanges"]
        21
    """

    sampler: Sampler
    lr: Positive
    steps: Count
    everyone: Sampler = field(default=Full(), repr=False, kw_only=True)

    cohorts_per_round = None

    def bind(self, problem):
        return replace(self, everyone=full_pass(self.sampler, problem.population))

    def client_state(self, x):
        return ClientVariate(x, zeros(x))

    def start(self, ask, x):
        return ScaffoldSagState(x, ask(self.everyone, self.renew, x).total())

    def output(self, server):
        return server.x

    def round(self, ask, server):
        replies = ask(self.sampler, self.renew, server.x)
        ask.observe(replies)
        b = add(server.variate, replies.total())
        again = replace(replies.cohort, active=replies.answered)
        return ScaffoldSagState(add(server.x, ask(again, self.descend, b).mean()), b)

    @on_client
    def renew(self, client, x):
        """The change of b_i to grad f_i(x)."""
        gradient = client.grad(x)
        return Done(add(gradient, client.state.gradient, -1.0), ClientVariate(x, gradient))

    @on_client
    def descend(self, client, b):
        """y_i - x."""
        return Done(corrected_descent(client, *client.state, b, self.lr, self.steps), queries=self.steps - 1)
