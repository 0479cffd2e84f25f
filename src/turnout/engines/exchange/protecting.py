"""Noise that the server adds to sums of replies, for central differential privacy."""

import jax.numpy as jnp

from turnout.core.cohort import Cohort
from turnout.core.replies import Replies, Weight
from turnout.engines.exchange.drawing import Draws
from turnout.engines.inputs import Job
from turnout.privacy.mechanism import NoisyReplies
from turnout.samplers import Independent, Nice


def protected(replies: Replies, job: Job, draws: Draws, method: str, round, exchange) -> Replies:
    """Return replies whose sums have noise where the server has to add it; taken twice, a sum has the same noise.

    The noise depends on the name of the local method, the round and the number of the exchange in it.

    Args:
        replies: Replies of the cohort.
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        draws: Cohorts drawn in this round.
        method: Address of the local method.
        round: Number of the round.
        exchange: Number of the exchange in the round.
    """
    protection = job.protection
    if protection is None or protection.model != "central":
        return replies
    key = protection.key(method, round, exchange, job.population.count)

    def disturbed(total, by):
        return protection.add_noise(total, largest_weight(by, replies.cohort, draws, job), key)

    return NoisyReplies(replies.cohort, replies.answered, held=replies, disturbed=disturbed)


def largest_weight(by: Weight, cohort: Cohort, draws: Draws, job: Job):
    """Return the largest weight that a sum may give a client: of all clients where it is known, else of the cohort's.

    Args:
        by: Weighting of the sum.
        cohort: The cohort.
        draws: Cohorts drawn in this round.
        job: Inputs of the engine: problem, initial parameters, seeds and options.
    """
    population, place = job.population, draws.place(cohort)
    if by == "share":
        return jnp.max(population.shares)
    if place is not None and population.available is None:
        sampler = draws.samplers[draws[place].number]
        if isinstance(sampler, (Independent, Nice)):
            return jnp.max(population.shares / sampler.expected_draws(draws[place].state, population))
    return jnp.max(jnp.where(cohort.active, cohort.weight, 0))
