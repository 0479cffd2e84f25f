"""Amplified FedAvg: federated averaging whose sum of changes over some rounds is made longer."""

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.fedavg import FedAvg
from turnout.core.records import Count, Positive, record
from turnout.core.tree import add, where


class Amplified(NamedTuple):
    """x, and `anchor` = a, the x at the start of the period."""

    x: PyTree
    anchor: PyTree


@record
class AmplifiedFedAvg(FedAvg):
    """Generalised FedAvg with amplified updates, for arbitrary participation (Wang and Ji, 2022, Algorithm 1).

    x <- x + mean_{i in S} (y_i - x) as in `FedAvg`; after each `period` of P rounds also x <- a + amplification (x - a), a <- x.

    Where clients take turns, as with a trace of `Available`, P is the period of the turns: small steps lr / amplification inside
    a period keep the model near a, so that all clients speak of about the same one, and the amplification gives back their
    length. Within a period the sum of changes should have the weights of f, which the mean over those who answer gives where
    cohorts are of one size and all clients take part as often. The fixed point is FedAvg's for the smaller step.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        period: P, the number of rounds between amplifications.
        amplification: Factor of the change over a period, > 0; eta in the paper, gamma in that of `AmplifiedScaffold`.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> turns = [[i, i // 4 * 2, i // 4 * 2 + 2] for i in range(8)]  # client, from, to
        >>> algorithm = t.AmplifiedFedAvg(t.Available(t.Nice(2), trace=turns, period=4), lr=0.02, period=4, amplification=2.0)
        >>> t.run(algorithm, problem, rounds=8).ledger.totals()["vectors_up"]
        16
    """

    _: KW_ONLY
    period: Count
    amplification: Positive

    replies_differences = False

    def start(self, ask, x):
        return Amplified(x, x)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        return amplified(self, super().round(ask, server.x), server.anchor, ask.round)


def amplified(algorithm, x: PyTree, anchor: PyTree, round) -> Amplified:
    """Return a + amplification (x - a) as x and as anchor at the end of a period, and x and a in other rounds.

    Args:
        algorithm: A record with the fields `period` and `amplification`.
        x: Parameters after the round.
        anchor: a.
        round: Number of the round, from 1.
    """
    ends = round % jnp.asarray(algorithm.period) == 0
    x = where(ends, add(anchor, add(x, anchor, -1.0), algorithm.amplification), x)
    return Amplified(x, where(ends, x, anchor))
