"""Rescaled ASGD: asynchronous steps as long as the client's work took, so that fast clients do not count more."""

from dataclasses import KW_ONLY, replace

import jax.numpy as jnp
import numpy as np

from turnout.algorithms.async_fedavg import AsyncFedAvg, check_everyone_works
from turnout.core.errors import UserError
from turnout.core.records import Positive, record
from turnout.core.tree import add


@record
class RescaledAsgd(AsyncFedAvg):
    """Rescaled ASGD (Mahran, Maranjyan and Richtarik, 2026), for clients with different distributions and speeds.

    x <- x + lambda_i tau_i sum_j (1 / tau_j) (y_i - x_i) whenever a reply comes, where y_i is x_i after local steps, and tau_i is
    how long client i works. With one local step y_i - x_i = -lr grad f_i(x_i): step sizes are in proportion to tau_i.

    Plain asynchronous steps minimise sum_i f_i / tau_i, since a fast client sends more of them. Here each client moves x by as
    much in the same time. The factor has the mean 1 over the replies, so that lr is the mean step size of the server.

    Without `seconds`, tau_i sum_j (1 / tau_j) is measured, as the number of steps that the server makes from the one after it
    sent x_i to the one with the reply. For fixed tau_i this is the same number in the mean; and whatever the times are, the
    numbers of a client add up to the number of all steps, so that clients count by lambda_i.

    All clients are at work, and each goes on at once: `in_flight` is n, and the sampler draws one client.

    Args:
        sampler: Who is sent x, among the clients that are not at work: one at a time.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        in_flight: n, the number of clients.
        seconds: tau_i > 0 [n], in any unit; default: measured in steps of the server.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Raises:
        UserError: On binding, where some clients are not at work, the sampler draws several, or `seconds` are not n numbers.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> algorithm = t.RescaledAsgd(t.Nice(1), lr=0.01, in_flight=8)
        >>> devices = t.Devices(seconds_per_query=[1.0, 2.0, 4.0, 8.0, 1.0, 2.0, 4.0, 8.0])
        >>> t.run(algorithm, problem, rounds=20, devices=devices).ledger.totals()["arrivals"]
        20
    """

    _: KW_ONLY
    seconds: list[Positive] | np.ndarray | None = None

    def bind(self, problem):
        bound = super().bind(problem)
        check_everyone_works(bound, problem)
        if self.seconds is None:
            return bound
        seconds = np.asarray(self.seconds, float)
        if seconds.shape != (problem.clients,) or not np.all((seconds > 0) & np.isfinite(seconds)):
            raise UserError(f"RescaledAsgd.seconds must be {problem.clients} numbers above 0, one for each client")
        return replace(bound, seconds=seconds)

    def round(self, ask, server):
        self.send(ask, server)
        replies = ask.next(1)
        factor = 1 + self.staleness(ask, replies)[0]
        if self.seconds is not None:
            seconds = jnp.asarray(self.seconds, factor.dtype)
            factor = seconds[replies.cohort.ids[0]] * jnp.sum(1 / seconds)
        return add(server, replies.total(), jnp.where(replies.answered[0], factor, 0))
