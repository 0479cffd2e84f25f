"""lr = "auto": a step size that is measured, not given."""

from typing import Any, ClassVar, Literal

import jax

from turnout.core.records import Positive, record


@record
class AutoLr:
    """The value `"auto"` of a field `lr`: the server chooses lr by what clients measure.

    lr <- min(2 lr, 1 / mean_{i in S} L_i), where L_i is the largest |g(y+) - g(y)| / |y+ - y| of the local steps from y to y+ of
    client i, both gradients on the rows of the step.

    The first step of a run moves by 10^-3 only, to measure; the others of its first round have the size 1 / L_i, L_i so far. In
    later rounds a client that meets a curvature above 2 / lr goes on with 2 / L_i. A round sends one number more in each
    direction, and takes one query more, or with batches twice as many.

    L_i is the local smoothness by which the step sizes of Malitsky and Mishchenko (2020) and, for each client alone, those of
    Delta-SGD (Kim et al., 2024) adapt. Here all clients take the same step size, so that none of them counts more. A `schedule`
    is a factor of it.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedAvg(t.Nice(4), "auto", steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["queries_total"]
        (5, 80)
    """

    called: ClassVar[str] = "'auto'"

    @staticmethod
    def coerce(value: Any) -> Any:
        """Return `"auto"` as an `AutoLr`, and any other `value` unchanged."""
        return AutoLr() if isinstance(value, str) and value == "auto" else value


Lr = Positive | AutoLr | Literal["auto"]
"""A step size, or `"auto"`."""


def is_auto(algorithm: Any) -> bool:
    """Return whether a record has an lr that is `"auto"`, or a part of it has."""
    return any(isinstance(part, AutoLr) for part in jax.tree.leaves(algorithm, is_leaf=lambda part: isinstance(part, AutoLr)))
