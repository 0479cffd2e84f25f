"""SCAFFOLD with two exchanges: clients descend along SAG's estimate of the gradient, which has their new gradients in it."""

from dataclasses import field, replace

from turnout.algorithms.correction import Corrected, Known
from turnout.algorithms.passes import everyone
from turnout.algorithms.variates import Server
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import record
from turnout.core.tree import add, zeros
from turnout.samplers import Full, Sampler


@record
class ScaffoldSag(Corrected):
    """b_i <- grad f_i(x) for i in S, b = sum_i lambda_i b_i, x <- mean_{i in S} y_i, y_i being x after K steps

        y <- y - lr (grad f_i(y) - grad f_i(x) + b).

    Scaffold of cost-aware client selection, appendix A, with b_i = grad f_i(x_0) from a first pass over all clients; S is asked
    for b_i and again for y_i, one vector each way both times, where `Scaffold` with option "I" makes one exchange of two vectors
    and takes its steps along b of the round before.
    """

    everyone: Sampler = field(default=Full(), repr=False)

    def bind(self, problem):
        return replace(self, everyone=everyone(self.sampler, problem.population))

    def start(self, ask, x):
        return self._heard(Server(x, zeros(x)), ask(self.everyone, self.renew, x))

    def round(self, ask, server):
        replies = ask(self.sampler, self.renew, server.x)
        ask.observe(replies)
        server = self._heard(server, replies)
        return server._replace(x=add(server.x, self.move(ask, replies, server.variate)))

    def _heard(self, server: Server, replies) -> Server:
        """b after the clients who answered replaced their b_i."""
        return server._replace(variate=add(server.variate, replies.total()))

    @on_client
    def renew(self, client, x):
        """The change of b_i to grad f_i(x)."""
        gradient = client.grad(x)
        return Done(add(gradient, client.state.gradient, -1.0), Known(x, gradient))
