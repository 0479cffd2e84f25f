"""Rounds that alternate between the two matrices of adapters, of which one moves and is sent back."""

from functools import partial

from turnout.core.algorithm import Algorithm, Ask
from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.engines.groups.halves import HalfAsk, Halves, has_only_parameters
from turnout.problems.grouped import Leaves
from turnout.samplers.base import samplers_in

Names = tuple[str, ...]


@record
class Alternating(Halves):
    """The rounds of an algorithm with A fixed in odd rounds, and with B fixed in even ones (RoLoRA; Chen et al., 2025).

    The server's state is the parameters: messages have both matrices, since other clients moved the one that is fixed now.

    Args:
        algorithm: The algorithm, whose state is its parameters.
        a: Names of the leaves A.
        b: Names of the leaves B.
    """

    a: Names = static()
    b: Names = static()

    moves = ("a", "b")

    def round(self, ask, server):
        halves = partial(self._half, ask, "b", self.a), partial(self._half, ask, "a", self.b)
        return ask.cond(ask.round % 2 == 1, *halves, server)

    def _half(self, ask: Ask, moves: str, names: Names, x: Leaves) -> Leaves:
        """Return the parameters after a round in which the leaves `names` are fixed."""
        fixed = {name: x[name] for name in names}
        inside = HalfAsk(ask, self, moves, fixed)
        return {**self.algorithm.round(inside, {name: leaf for name, leaf in x.items() if name not in fixed}), **fixed}


def alternating(algorithm: Algorithm, a: Names, b: Names, x: Leaves) -> Algorithm:
    """Return `algorithm` with rounds that alternate between the leaves `a` and `b`.

    Args:
        algorithm: The algorithm.
        a: Names of the leaves A; where there are none, the algorithm stays as it is.
        b: Names of the leaves B.
        x: The first parameters.

    Raises:
        UserError: The algorithm has a state beside its parameters, or a sampler learns from losses.
    """
    if not a:
        return algorithm
    if not has_only_parameters(algorithm, x):
        raise UserError(
            f"{type(algorithm).__name__} has a state beside its parameters, which does not alternate between A and B: take an "
            "algorithm such as FedAvg, or trained = 'both'"
        )
    if any(sampler.feedback_kind == "loss" for sampler in samplers_in(algorithm)):
        raise UserError(
            "a sampler that learns from losses needs messages with all parameters, but adapters alternate: take another"
        )
    return Alternating(algorithm, a, b)
