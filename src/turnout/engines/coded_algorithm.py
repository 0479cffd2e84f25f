"""From an algorithm and codecs to the algorithm with compressed exchanges."""

import jax
import jax.numpy as jnp

from turnout.codecs.coded import Coded, without_loss
from turnout.codecs.exchange import Exchange
from turnout.codecs.parts import Shape
from turnout.core.algorithm import Algorithm
from turnout.core.debugging import shape_of
from turnout.core.errors import UserError
from turnout.core.local_methods import LOSS, NORM
from turnout.core.messages import split_each
from turnout.engines.flight_shape import TracingAsk
from turnout.engines.groups.grouped_algorithm import grouped
from turnout.engines.groups.statistics import first_statistics
from turnout.engines.inputs import Job
from turnout.engines.state import first_state


def coded(job: Job, algorithm: Algorithm, exchange: Exchange | None) -> Algorithm:
    """Return `algorithm` as the engine runs it: on the shared leaves of a problem with groups, its exchanges compressed.

    Args:
        job: Inputs of the engine.
        algorithm: The algorithm, bound to the problem.
        exchange: The codecs; None for none.

    Raises:
        UserError: Where a codec does not fit a message or a reply.
    """
    algorithm = grouped(job, algorithm)
    if exchange is None:
        return algorithm
    plain = len(jax.tree.leaves(first_statistics(algorithm)))
    whole = Coded(algorithm, exchange, shapes_of(job, algorithm), plain)
    for name, *_ in whole.shapes:
        coding = whole.coding(name)
        for direction in () if coding is None else coding:
            direction.check()
    return whole


def shapes_of(job: Job, algorithm: Algorithm) -> tuple[tuple[str, Shape, Shape], ...]:
    """Return the address of each local method that is asked, and the shapes of its message and its reply.

    Args:
        job: Inputs of the engine.
        algorithm: The algorithm, bound to the problem.
    """
    shapes: dict[str, tuple[Shape, Shape]] = {}

    def trace(job):
        ask = ShapesAsk(shapes, job, algorithm, jnp.zeros((), "int32"), first_state(job, algorithm, sites=()), None)
        server = ask.start(job.start)
        ask.refresh(algorithm.output(server))
        algorithm.round(ask, server)

    shape_of(trace, job)
    return tuple((name, *pair) for name, pair in shapes.items())


class ShapesAsk(TracingAsk):
    """Answers `ask` while a round is traced, and notes the shapes of messages and replies.

    Args:
        shapes: Where they are noted, by the address of the local method.
        *arguments: Arguments of `TracingAsk`.
    """

    def __init__(self, shapes: dict[str, tuple[Shape, Shape]], *arguments):
        super().__init__(*arguments)
        self._shapes = shapes

    def _asked(self, path, cohort, name, message, *rest):
        done, *others = super()._asked(path, cohort, name, message, *rest)
        if name.split(".")[-1] not in (NORM, LOSS):
            base, (individual, write) = without_loss(name), split_each(message)
            reply = done.reply if base == name else done.reply[0]
            first, reply = jax.tree.map(lambda stacked: stacked[0], (individual, reply))
            pair = Shape.of(write(first)), Shape.of(reply)
            if self._shapes.setdefault(base, pair) != pair:
                raise UserError(f"{base} gets messages of several shapes, and a codec needs one: write one local method for each")
        return (done, *others)
