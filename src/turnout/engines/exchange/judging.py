"""Feedback to samplers: which numbers they can learn from, and how good their draws were."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree

from turnout.core.local_methods import norm
from turnout.core.messages import vector
from turnout.core.replies import Replies
from turnout.core.tree import where
from turnout.engines.exchange.drawing import Draw
from turnout.engines.inputs import Job
from turnout.samplers.base import Sampler
from turnout.samplers.diagnostics import Quality, judge


def feedback_of(
    replies: Replies, feedback: Float[Array, " m"] | None, params: PyTree
) -> tuple[Float[Array, " m"], Bool[Array, " m"]]:
    """Return the feedback of each place, and whether it is usable: finite, and at least 0 unless it is a loss.

    Unless given, the feedback is the loss where clients replied with it, else the norm of the reply.

    Args:
        replies: Replies of the cohort.
        feedback: One number for each place [m]; None for the default.
        params: Parameters of the run.
    """
    if feedback is None and replies.losses is not None:
        values, least = replies.losses, -jnp.inf
    else:
        values, least = replies.each(partial(length_of, like=params)) if feedback is None else feedback, 0
    return values, jnp.isfinite(values) & (values >= least)


@jax.jit
def length_of(reply: PyTree, like: PyTree) -> Float[Array, ""]:
    """Return the norm of a reply's first part that is shaped like the parameters `like`; compiled, it takes no memory.

    Args:
        reply: Reply of one client.
        like: Parameters of the run.
    """
    return norm(vector(reply, like))


def judged(quality: Quality, draw: Draw, sampler: Sampler, job: Job, replies: Replies, first: Bool[Array, ""]) -> Quality:
    """Return the quality of the draws with this one added, if it is the `first` time that its replies are reported.

    Args:
        quality: Quality of the draws so far.
        draw: The draw.
        sampler: The sampler that made it.
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        replies: Replies of the cohort.
        first: Whether these replies are reported for the first time.
    """
    everyone = jax.vmap(lambda reply: ravel_pytree(vector(reply, job.start))[0])(replies.everyone)
    new = judge(quality, sampler, draw.state, job.population, everyone)
    return where(first, new, quality)
