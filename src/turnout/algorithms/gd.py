"""Gradient descent by passes over all clients."""

from dataclasses import KW_ONLY, replace

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add
from turnout.optimisers.schedules import Schedule, scheduled
from turnout.samplers import Sampler
from turnout.samplers.full_pass import full_pass


@record
class Gd(Algorithm):
    """Gradient descent: GD of cost-aware client selection, appendix A, where lr = 1 / L_f.

    x <- x - lr grad f(x).

    All clients take part in each round, as many at a time as the sampler draws.

    Args:
        sampler: How many clients are asked at a time; a round is charged as ceil(n / m) arbitrary selections.
        lr: Step size of the server, > 0.
        schedule: Factor of lr in each round.
        batch: Rows that a client's gradient is taken on, drawn uniformly with replacement; None for all rows.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Gd(t.Nice(4), lr=0.05), problem, rounds=5)
        >>> trace.ledger.totals()["draws_arbitrary"], trace.ledger.totals()["queries_total"]
        (10, 40)
    """

    sampler: Sampler
    lr: Positive
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)

    def bind(self, problem):
        return replace(self, sampler=full_pass(self.sampler, problem.population))

    def round(self, ask, x):
        replies = ask(self.sampler, self.gradient, x)
        ask.observe(replies)
        return add(x, replies.average(), -scheduled(self.lr, self.schedule, ask.round))

    @on_client
    def gradient(self, client, x):
        """grad f_i(x), or its estimate from a batch."""
        rows = client if self.batch is None else client.batch(client.key, self.batch)
        return Done(rows.grad(x))
