"""Samplers that ask clients about the coming exchange before they draw: whom they ask, for what, and the answers."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.local_methods import LOSS, NORM, address
from turnout.core.messages import split_each
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.problems.base import Population
from turnout.samplers.base import Sampler


class Consultation(NamedTuple):
    """Clients to ask, the name of the local method that they run, and the message that it gets.

    Args:
        cohort: Clients to ask.
        method: Address of the local method that they run.
        message: Message that they receive.
    """

    cohort: Cohort
    method: str
    message: PyTree


def consultation(algorithm, sampler: Sampler, state: PyTree, key, population: Population, method, message) -> Consultation:
    """Return whom `sampler` consults, and for what: the norms of the replies to `message`, or the losses there.

    `key` is that of the coming draw.

    Args:
        algorithm: The algorithm, bound to the problem.
        sampler: The sampler.
        state: Its state.
        key: Random key of the coming draw.
        population: The clients.
        method: Local method of the coming exchange; None where the algorithm names none.
        message: Message of the coming exchange.
    """
    if method is None:
        raise UserError(
            f"the sampler asks before it draws, and {type(algorithm.addressed).__name__} does not say what: write "
            "ask.draw(sampler, method, message)"
        )
    # No client has the number n, and no draw splits off as many keys.
    cohort = sampler.consulted_cohort(state, jax.random.fold_in(key, population.count), population)
    name = f"{address(algorithm, method)}.{LOSS if sampler.feedback_kind == 'loss' else NORM}"
    message = strongly_typed(message)
    refuse_individual(message, algorithm, "the sampler asks clients before it draws")
    return Consultation(cohort, name, message)


def consultation_events(cohort: Cohort) -> dict:
    """Return the events of selecting the clients to consult."""
    return {"draws_arbitrary": cohort.selections, "available": cohort.available, "drawn": cohort.size}


def by_client(replies, answered: Bool[Array, " m"], cohort: Cohort, count: int) -> tuple[Float[Array, " n"], Bool[Array, " n"]]:
    """Return the numbers that the cohort's places replied, and whether they did, laid out by client [n].

    Args:
        replies: One number for each place [m].
        answered: Which places replied [m].
        cohort: The cohort.
        count: n, the number of clients.
    """
    places = jnp.where(answered, cohort.ids, count)
    replies = jnp.asarray(replies)
    values = jnp.zeros(count, replies.dtype).at[places].set(replies, mode="drop")
    return values, jnp.zeros(count, bool).at[places].set(True, mode="drop")


def refuse_individual(message: PyTree, algorithm, why: str) -> None:
    """Raise `UserError` where `message` differs from client to client: only a cohort's places have a message then.

    Args:
        message: The message.
        algorithm: The algorithm, bound to the problem.
        why: Why it must be the same for all clients, for the error.
    """
    if split_each(message)[0]:
        raise UserError(f"{why}, but {type(algorithm.addressed).__name__} has a message of its own for each: do without these")
