"""How a server's algorithm talks to clients: `ask` down to them, `Done` back up.

An algorithm is a record of hyper-parameters whose `round(ask, server)` is ordinary code. `ask` is its only way to the
clients; an engine is whatever answers it. Read this page, one file of `algorithms/` and one of `engines/` to know the
whole.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from jaxtyping import Array, Bool, Float, PyTree

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.replies import Replies


def on_client(method: Callable) -> Callable:
    """Mark `method(self, client, message) -> Done` as one that clients run; only marked methods can be asked."""
    method.on_client = True
    return method


class Algorithm:
    """A federated algorithm: a record of hyper-parameters with a `round`."""

    is_dual: ClassVar[bool] = False
    """Whether clients keep dual variables that sum to 0, so that x* is the fixed point for any cohorts."""

    cohorts_per_round: ClassVar[int | None] = 1
    """How many cohorts a round draws, each asked once, as lower bounds count; None where a cohort is asked again."""

    def bind(self, problem) -> "Algorithm":
        """Return this algorithm fitted to `problem`, its samplers and solvers being so already."""
        return self

    def bounds(self, problem, constants) -> Any:
        """Return the `theory.bounds.Bound` of a theorem on this bound algorithm, given the `DesignConstants` of its sampler.

        Raises:
            UserError: If no theorem is about it; the sentence says why.
        """
        raise UserError(f"no theorem here bounds |x - x*| for {type(self).__name__}")

    def start(self, ask: "Ask", x: PyTree) -> PyTree:
        """Return the server's first state from the initial parameters `x`."""
        return x

    def round(self, ask: "Ask", server: PyTree) -> PyTree:
        """Return the server's state after one round."""
        raise UserError(f"{type(self).__name__} has no round(self, ask, server): write one")

    def output(self, server: PyTree) -> PyTree:
        """Return the parameters that the server would hand out."""
        return server

    def client_state(self, x: PyTree) -> PyTree:
        """Return one client's first private state; None where clients keep nothing."""
        return None


class Ask(ABC):
    """The server's handle on its clients; each engine implements it. `round` is the number of the round, 1 for the first."""

    round: Any

    @abstractmethod
    def draw(self, sampler, method: Callable | None = None, message: PyTree = None) -> Cohort:
        """Select a cohort, to be asked once or several times; `method` and `message` are what it will be asked first.

        Samplers that look ahead ask clients how long their reply to that would be, or for their loss there.
        """

    @abstractmethod
    def __call__(self, who, method: Callable, message: PyTree) -> "Replies":
        """Exchange once with `who` (a cohort, or a sampler to draw one): send `message`, run `method`, collect replies."""

    @abstractmethod
    def observe(self, replies: "Replies", feedback: Float[Array, " m"] | None = None) -> None:
        """Tell the sampler that drew the cohort of `replies` what was learnt about each of its m places; once for each cohort.

        The feedback is the Euclidean norm of each reply unless given: of its first part shaped like the parameters, if it has
        one. Samplers that learn from losses have asked for these instead.
        Further calls about the same cohort are ignored.
        """

    @abstractmethod
    def reject(self, rejected) -> None:
        """Count the last exchange as a rejected trial of a line search if `rejected`; it is paid for all the same."""

    def connected(self) -> Bool[Array, " n"] | None:
        """Return which clients are there now, as far as the engine can tell; None where it has no say in that."""
        return None

    @abstractmethod
    def key(self) -> Any:
        """Return the server's own random key for the next exchange."""

    @abstractmethod
    def loop(self, count, body: Callable, carry: PyTree, until: Callable | None = None) -> PyTree:
        """Apply `carry = body(carry)` `count` times, or until `until(carry)`; the loop to use around an exchange."""

    @abstractmethod
    def cond(self, predicate, then: Callable, otherwise: Callable, carry: PyTree) -> PyTree:
        """Return `then(carry)` or `otherwise(carry)`; the branch to use around an exchange."""
