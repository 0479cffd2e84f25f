"""The statistics that the server averages: they go along with messages, and come back with replies."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.codecs.coded import Coded
from turnout.core.algorithm import Algorithm
from turnout.core.replies import Replies, Weight, if_any
from turnout.core.tree import positive
from turnout.engines.groups.grouped_algorithm import GroupedAlgorithm
from turnout.problems.grouped import Leaves


def grouped_in(algorithm: Algorithm) -> GroupedAlgorithm | None:
    """Return the algorithm with groups that an engine runs, compressed or not; None where there are no groups.

    Args:
        algorithm: The algorithm of an engine.
    """
    inner = algorithm.algorithm if isinstance(algorithm, Coded) else algorithm
    return inner if isinstance(inner, GroupedAlgorithm) else None


def first_statistics(algorithm: Algorithm) -> Leaves:
    """Return the statistics before the first round; none where the server averages none."""
    grouped = grouped_in(algorithm)
    return {} if grouped is None else grouped.statistics


def attached(message: PyTree, statistics: Leaves) -> PyTree:
    """Return a message with the statistics, if there are some.

    Args:
        message: The message.
        statistics: The server's statistics.
    """
    return (message, statistics) if statistics else message


def averaged(replies: Replies, statistics: Leaves, by: Weight | None) -> Leaves:
    """Return sum w_i s_i / sum w_i over the clients that answered, and where none did the old statistics.

    Args:
        replies: Replies with statistics.
        statistics: The old statistics.
        by: The weights w_i of the one sum that is known; None: each reply is known, and w_i = lambda_i.
    """
    if by is None:
        new = replies.mean()[1]
    else:
        total = positive(jnp.sum(jnp.where(replies.answered, getattr(replies.cohort, by), 0)))
        new = jax.tree.map(lambda leaf: leaf / total.astype(leaf.dtype), replies.summed(by)[1])
    return if_any(replies, new, statistics)


def without_statistics(replies: Replies) -> Replies:
    """Return what the algorithm sees of replies with statistics."""
    if type(replies) is Replies:
        everyone = None if replies.everyone is None else replies.everyone[0]
        return replace(replies, held=replies.held[0], everyone=everyone)
    return FirstPart(replies)


class FirstPart(Replies):
    """The first part of each reply.

    Args:
        whole: The replies.
    """

    whole: Replies

    def __init__(self, whole: Replies):
        everyone = getattr(whole, "everyone", None)
        own: dict[str, Any] = {"whole": whole, "held": None, "everyone": None if everyone is None else everyone[0]}
        shared = {name: getattr(whole, name, None) for name in ("cohort", "answered", "losses", "sent")}
        for name, value in {**own, **shared}.items():
            object.__setattr__(self, name, value)

    @property
    def lazy(self):
        return self.whole.lazy

    @property
    def values(self):
        return self.whole.values[0]

    def each(self, of):
        return self.whole.each(lambda reply: of(reply[0]))

    def map(self, change):
        return without_statistics(self.whole.map(lambda i, reply: (change(i, reply[0]), reply[1])))

    def scaled(self, factors):
        return without_statistics(self.whole.scaled(factors))

    def mean(self):
        return self.whole.mean()[0]

    def summed(self, by):
        return self.whole.summed(by)[0]
