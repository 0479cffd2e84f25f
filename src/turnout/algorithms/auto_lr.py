"""Algorithms with lr = "auto": the server chooses the step size by the curvature that clients meet on their way."""

from copy import copy
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.client_solvers.measured_client import MeasuredClient
from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.core.replies import Replies
from turnout.core.tree import positive
from turnout.optimisers.auto_lr import AutoLr
from turnout.optimisers.schedules import Schedule


def with_auto_lr(algorithm: Any, cls: type) -> Any:
    """Return an algorithm of the class `cls`, which chooses its lr during the run if that is "auto".

    Args:
        algorithm: The algorithm, which sends lr with its messages and calls `local_sgd`.
        cls: The class that can do so; its subclasses, which may train in other ways, cannot.

    Raises:
        UserError: Where lr is "auto", and the algorithm is of a subclass.
    """
    if not isinstance(algorithm.lr, AutoLr):
        return algorithm
    if type(algorithm) is not cls:
        name = type(algorithm).__name__
        raise UserError(f'{name}.lr cannot be "auto", which {cls.__name__} knows but not its variants: give lr a number')
    return WithAutoLr(algorithm)


class AutoState(NamedTuple):
    """The server's `inner` state of the algorithm, and its lr; 0 before the first round."""

    inner: PyTree
    lr: Float[Array, ""]


@record
class WithAutoLr(Algorithm):
    """An algorithm with local steps of the size that clients measure: see `AutoLr`.

    Args:
        algorithm: The algorithm.
    """

    algorithm: Algorithm

    wraps: ClassVar[str] = "algorithm"

    def __post_init__(self):
        if not isinstance(getattr(self.algorithm, "lr", None), AutoLr):
            name = type(self.algorithm).__name__
            raise UserError(f'a sweep of lr needs a number to begin with: give {name} another lr than "auto"')

    @property
    def sampler(self):
        """Who takes part in each round."""
        inside: Any = self.algorithm
        return inside.sampler

    def bind(self, problem):
        # What is bound already may be bound again.
        return self.algorithm if isinstance(self.algorithm, WithAutoLr) else self

    def start(self, ask, x):
        return AutoState(self.algorithm.start(ask, x), jnp.zeros((), jnp.result_type(float)))

    def output(self, server):
        return self.algorithm.output(server.inner)

    def client_state(self, x):
        return self.algorithm.client_state(x)

    def round(self, ask, server):
        measuring = MeasuringAsk(ask, self)
        schedule = Measured(server.lr, getattr(self.algorithm, "schedule", None))
        inner = _with(self.algorithm, lr=1.0, schedule=schedule).round(measuring, server.inner)
        best = 1 / positive(measuring.curvature.astype(server.lr.dtype))
        lr = jnp.where(server.lr > 0, jnp.minimum(2 * server.lr, best), best)
        return AutoState(inner, jnp.where(measuring.curvature > 0, lr, server.lr))

    @on_client
    def train(self, client, message):
        """The reply of the algorithm, and L_i."""
        measured = MeasuredClient(client)
        method: Any = self.algorithm
        done = method.train(measured, message)
        return done._replace(reply=(done.reply, measured.curvature))


@record
class Measured(Schedule):
    """An lr that was measured, times the factor of another schedule.

    Args:
        lr: The lr.
        schedule: The other schedule, if there is one.
    """

    lr: Float[Array, ""]
    schedule: Schedule | None

    def factor(self, t):
        return self.lr if self.schedule is None else self.lr * self.schedule.factor(t)


class MeasuringAsk:
    """The `ask` of an algorithm whose clients also measure curvature; it keeps the mean of what they did.

    Args:
        ask: The server's access to its clients.
        outer: The algorithm with its measurements.
    """

    def __init__(self, ask: Ask, outer: WithAutoLr):
        self._ask, self._outer = ask, outer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ask, name)

    def __call__(self, who: Any, method: Any, message: PyTree) -> "Changes":
        replies = Changes(self._ask(who, self._outer.train, message))
        self.curvature = replies.curvature
        return replies

    def observe(self, replies: "Changes", feedback: Any = None) -> None:
        """Give the sampler its feedback."""
        self._ask.observe(replies.both, feedback)


class Changes:
    """What the replies of the algorithm alone would be, of which sums can be read.

    Args:
        both: Replies with curvatures.
    """

    def __init__(self, both: Replies):
        self.both = both
        self._mean, self.curvature = both.mean()
        self.answered = both.answered

    def mean(self) -> PyTree:
        """Return the mean over the clients that answered."""
        return self._mean

    def average(self) -> PyTree:
        """Return the unbiased estimate of the weighted mean over all clients."""
        return self.both.average()[0]

    def total(self) -> PyTree:
        """Return the sum over the clients that answered, weighted by lambda_i."""
        return self.both.total()[0]


def _with(algorithm: Any, **values: Any) -> Any:
    """Return a copy with other fields, which are traced and so not checked."""
    changed = copy(algorithm)
    for name, value in values.items():
        object.__setattr__(changed, name, value)
    return changed
