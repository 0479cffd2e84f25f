"""SA-PEF: compressed federated averaging whose local steps begin a part of the way along what compression has left behind."""

from dataclasses import KW_ONLY

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd, round_lr
from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.records import Count, Positive, Share, record, static
from turnout.core.tree import add, zeros
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


@record
class SaPef(Algorithm):
    """SA-PEF: step-ahead partial error feedback (Redie, Arablouei and Werner, 2026).

    u_i = (y_i - x) + (1 - alpha) e_i, y_i being x + alpha e_i after local steps y <- y - lr grad f_i(y), for i in S; then
    e_i <- u_i - C(u_i) and x <- x + server_lr mean_{i in S} C(u_i); e_i = 0 at first.

    e_i is what compression has left behind at the client. alpha = 0 is error feedback with local steps, as `FedAvg` has with the
    feedback "ef14", and alpha = 1 is step-ahead error feedback (Xu et al., 2021): u_i is e_i plus the change of the local steps
    for any alpha, and alpha says where their gradients are taken. Nothing is lost: with server_lr = 1 and full participation
    x + sum_i lambda_i e_i moves by the mean change of the local steps. C is a contraction, or unbiased with variance omega, and
    divided by 1 + omega. Where clients differ, the fixed point is not x*, as for `FedAvg`.

    Args:
        sampler: Who takes part in each round.
        codec: C.
        lr: Step size of the clients, > 0.
        alpha: Share of e_i that the local steps begin with, in [0, 1].
        steps: Local steps, or a list with one number for each client; 5 by default.
        server_lr: Step size of the server, > 0.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.SaPef(t.Nice(4), t.codecs.TopK(count=2), lr=0.02, alpha=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]
        340
    """

    sampler: Sampler
    codec: Codec = static()
    lr: Positive
    alpha: Share
    steps: Steps = None
    _: KW_ONLY
    server_lr: Positive = 1.0
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def client_state(self, x):
        return zeros(x)

    def round(self, ask, x):
        message = (x, round_lr(self.lr, self.schedule, ask.round))
        replies = ask_compressed(ask, self.sampler, self.train, message, self.codec, x, contract=True)
        ask.observe(replies)
        return add(x, replies.mean(), self.server_lr)

    @on_client
    def train(self, client, message):
        """C(u_i)."""
        ((x, lr), key), left = message, client.state
        start = add(x, left, self.alpha)
        done = local_sgd(client, start, self.lr if lr is None else lr, self.steps, self.batch, self.epochs)
        wanted = add(left, done.reply)
        payload, sent = compress(self.codec, wanted, client, key, contract=True)
        return done._replace(reply=payload, state=add(wanted, sent, -1.0))
