"""The interface between an algorithm, its clients and an engine: the page to read first.

An algorithm is a record of hyper-parameters whose `round(ask, server)` is ordinary code. It reaches clients through `ask` alone:

    server --- ask(cohort, method, message) ---> client i: method(client, message) -> Done(reply, state)
           <-------------- Replies -------------

An engine implements `Ask`: it draws cohorts, delivers messages, runs local methods, and counts every exchange. The same algorithm
therefore runs compiled, on separate nodes, on real machines and as a cost estimate. Continue with `core/client.py`, one file of
`algorithms/` and one of `engines/`.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from jaxtyping import Array, Bool, Float, PyTree

from turnout.core.client import Done
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.replies import Replies


def on_client(method: Callable) -> Callable:
    """Mark `method(self, client, message)` as a local method, which clients run; no other method can be sent to clients.

    It returns its reply, or a `Done` with the reply, the client's new state, and how many queries it made.

    Args:
        method: A method of an algorithm, or of a record that an algorithm holds.

    Examples:
        >>> import turnout as t
        >>> @t.record
        ... class Step(t.Algorithm):
        ...     sampler: t.Sampler
        ...
        ...     def round(self, ask, x):
        ...         return ask(self.sampler, self.step, x).mean()
        ...
        ...     @t.on_client
        ...     def step(self, client, x):
        ...         return x - 0.1 * client.grad(x)
        >>> problem = t.Quadratic.random(clients=10, dimension=2, seed=0)
        >>> t.run(Step(t.Nice(3)), problem, rounds=2).ledger.totals()["contacts"]
        6
    """

    @functools.wraps(method)
    def local(self, client, *message, **further):
        result = method(self, client, *message, **further)
        if result is None:
            raise UserError(f"{method.__qualname__} returns nothing: return the reply, or a Done with it")
        return result if isinstance(result, Done) else Done(result)

    vars(local)["on_client"] = True
    return local


class Algorithm:
    """A federated algorithm: a record of hyper-parameters with a `round` and the local methods that it asks clients to run.

    A subclass is decorated with `record`. Its fields are hyper-parameters, samplers and solvers; the server's state is whatever
    pytree `start` returns, and `round` maps it to the next one. Local methods see nothing of the server but their message.

    Raises:
        UserError: Where a field is given a value that its annotation does not allow.

    Examples:
        >>> import turnout as t
        >>> @t.record
        ... class Mean(t.Algorithm):
        ...     sampler: t.Sampler
        ...     lr: float
        ...
        ...     def round(self, ask, x):
        ...         return x - self.lr * ask(self.sampler, self.gradient, x).average()
        ...
        ...     @t.on_client
        ...     def gradient(self, client, x):
        ...         return t.Done(client.grad(x))
        >>> trace = t.run(Mean(t.Nice(4), lr=0.1), t.Quadratic.random(12, 3), rounds=5)
        >>> trace.ledger.totals()["contacts"]
        20
    """

    example = "t.FedAvg(t.Nice(10), lr=0.1)"

    is_dual: ClassVar[bool] = False
    """Whether clients keep dual variables that sum to 0, so that x* is the fixed point for any cohorts."""

    replies_differences: ClassVar[bool] = False
    """Whether a round adds to the parameters the mean of replies, each what a client's own ones moved by: see `Adapter`."""

    works_in_hubs: ClassVar[bool] = False
    """Whether its rounds are the work of hubs, so that a run needs some."""

    personalises: ClassVar[bool] = False
    """Whether each client uses a model of its own, which `own_model` returns: metrics are of these."""

    where_missed: ClassVar[str] = "give the local solver more steps, or a larger delta"
    """What to do where clients report problems that they missed (`Done.missed`): the end of a sentence."""

    cohorts_per_round: ClassVar[int | None] = 1
    """How many cohorts of `sampler` a round asks, each once, as the lower bound of FedDCD's Theorem 7.1 counts rounds.

    None where that bound does not apply: a cohort is asked again, a delegate or a full pass takes part too, or `start` asks.
    """

    @property
    def addressed(self) -> "Algorithm":
        """The record whose local methods have addresses: this one, unless it wraps another."""
        return self

    def local(self, method: Callable, name: str) -> Callable:
        """Return what clients run for the local method `method`; default: the method itself.

        Args:
            method: The local method.
            name: Its address.
        """
        return method

    def bind(self, problem) -> "Algorithm":
        """Return this algorithm fitted to `problem`; its samplers, schedules and solvers are fitted already.

        Args:
            problem: Objective and clients of the run.
        """
        return self

    def start(self, ask: "Ask", x: PyTree) -> PyTree:
        """Return the server's initial state; default: the parameters `x`.

        Args:
            ask: Access to the clients, for algorithms that begin with an exchange.
            x: Initial parameters.
        """
        return x

    def bounds(self, problem, constants) -> Any:
        """Return the `turnout.theory.bounds.Bound` on E|x_t - x*|^2 of a theorem about this algorithm.

        Args:
            problem: Problem that the algorithm is fitted to.
            constants: `DesignConstants` of the problem under the algorithm's sampler.

        Raises:
            UserError: Where no theorem holds; the sentence says why.
        """
        raise UserError(f"no theorem here bounds |x - x*| for {type(self).__name__}")

    def duals(self, server: PyTree, clients: PyTree, round) -> PyTree:
        """Return the dual variables y_i [n, ...] of a dual method, for the metric "dual_gap".

        Args:
            server: State of the server.
            clients: States of the clients [n, ...].
            round: Number of rounds played.
        """
        raise UserError(f"{type(self).__name__} has no dual variables: leave the metric 'dual_gap' out")

    def round(self, ask: "Ask", server: PyTree) -> PyTree:
        """Return the server's state after one round.

        Args:
            ask: Access to the clients.
            server: The server's state before the round.
        """
        raise UserError(f"{type(self).__name__} has no round(self, ask, server): write one")

    def output(self, server: PyTree) -> PyTree:
        """Return the parameters that the run evaluates and saves; default: the state itself.

        Args:
            server: The server's state.
        """
        return server

    @property
    def places(self) -> int:
        """How many requests may be in flight at once; default: 0, for an algorithm that sends none (`Ask.send`)."""
        return 0

    @property
    def model_groups(self) -> tuple:
        """The groups of leaves that it trains by, such as `Personal`; default: none, so that it takes those of the problem."""
        return ()

    def own_model(self, x: PyTree, state: PyTree) -> PyTree:
        """Return the model that a client uses, where `personalises`.

        Args:
            x: The parameters that the run has found: `output`.
            state: The client's private state.
        """
        return x

    def client_state(self, x: PyTree) -> PyTree:
        """Return the initial private state of a client; default: None, for clients without a state.

        Args:
            x: Initial parameters.
        """
        return None

    def hub_state(self, x: PyTree) -> PyTree:
        """Return the initial private state of a hub; default: None, for hubs without a state.

        Args:
            x: Initial parameters.
        """
        return None

    def in_hub(self, ask: "Ask", key: Any, message: PyTree, state: PyTree) -> Done:
        """Return what a hub replies after its work for `Ask.in_hubs`, and its new state.

        Like a local method it sees nothing of the server but its message: a hub may be a process of its own.

        Args:
            ask: Access to the clients of the hub.
            key: Random key of this hub, which the server knows: `Ask.key()` before the call, with the hub's number folded in.
            message: What the server sends to each hub.
            state: The private state of the hub.
        """
        raise UserError(f"{type(self).__name__} has no in_hub(self, ask, key, message, state): write what a hub does")


class Ask(ABC):
    """The server's access to its clients in one round; each engine implements it.

    Args:
        round: Number of the round, from 1.

    Examples:
        >>> import turnout as t
        >>> @t.record
        ... class TwoExchanges(t.Algorithm):
        ...     sampler: t.Sampler
        ...
        ...     def round(self, ask, x):
        ...         cohort = ask.draw(self.sampler)
        ...         middle = x - 0.1 * ask(cohort, self.slope, x).average()
        ...         return x - 0.1 * ask(cohort, self.slope, middle).average()
        ...
        ...     @t.on_client
        ...     def slope(self, client, x):
        ...         return t.Done(client.grad(x), queries=1)
        >>> problem = t.Quadratic.random(clients=10, dimension=2, seed=0)
        >>> t.run(TwoExchanges(t.Nice(3)), problem, rounds=5).ledger.totals()["exchanges"]
        10
    """

    round: Any

    @abstractmethod
    def draw(self, sampler, method: Callable | None = None, message: PyTree = None) -> Cohort:
        """Draw a cohort, to be asked once or several times.

        Args:
            sampler: A sampler that is a field of the algorithm.
            method: Local method that the cohort will run first. Samplers that consult clients before the draw need it.
            message: Message that will go with it.
        """

    @abstractmethod
    def __call__(self, who, method: Callable, message: PyTree) -> "Replies":
        """Perform one exchange: send `message`, run `method` at each client, and return the replies.

        Args:
            who: A cohort, or a sampler to draw one with.
            method: Local method to run, marked with `on_client`.
            message: Pytree of arrays; `Each` parts differ from client to client.
        """

    def send(self, who, method: Callable, message: PyTree) -> Cohort:
        """Put requests in flight: send `message`, go on while clients run `method`, and return the cohort.

        A client has one request in flight at most, and samplers draw among those without one. All requests of an algorithm ask
        for one method. Counts of messages to clients are those of this call.

        Args:
            who: A cohort, or a sampler to draw one with.
            method: Local method to run, marked with `on_client`.
            message: Pytree of arrays; `Each` parts differ from client to client.

        Raises:
            UserError: Where more than `Algorithm.places` requests are sent at once, or a client has one already.
        """
        raise UserError("requests in flight are of the algorithm itself, not of a solver or estimator that it holds")

    def next(self, count: int = 1) -> "Replies":
        """Wait for the next `count` replies to requests in flight, and return them; `Replies.sent` tells when each was sent.

        Replies come in the order of the clock, those of one time in the same order in all engines; without devices they come in
        the order of the requests. A reply that is lost, or later than a deadline, is waited for until then, and is not answered.
        Where fewer requests are in flight, the other places have no client. This is one exchange, and the counts of replies and
        of oracle calls, and the time on the clock, are those of this call.

        Args:
            count: How many.
        """
        raise UserError("requests in flight are of the algorithm itself, not of a solver or estimator that it holds")

    def in_hubs(self, sizes: tuple[int, ...], message: PyTree, like: PyTree, states: PyTree = None) -> tuple["Replies", PyTree]:
        """Have all hubs work side by side, each with its own clients, and return what they reply, and their new states.

        Each hub runs `Algorithm.in_hub`. Inside, `draw` draws among the clients of one hub, whose weights lambda_i / Lambda_h sum
        to one, and exchanges stay inside the hub. To the server each hub is a client with the weight Lambda_h, the sum of its
        lambda_i. Of counts that do not add up over hubs, such as exchanges and seconds, the round has the largest. A hub none of
        whose clients answers sends no reply, and keeps its state. Hubs that are processes keep their states themselves, and
        `states` come back as they are.

        Args:
            sizes: Number of clients of each hub.
            message: What the server sends to each hub.
            like: Arrays shaped like the reply of one hub.
            states: States of the hubs [hubs, ...], at first `Algorithm.hub_state` of each.

        Raises:
            UserError: Where a sampler cannot draw among some of the clients, or the run has an option that does not go with it.
        """
        raise UserError("hubs work for the algorithm itself, not for a solver or estimator that it holds")

    @abstractmethod
    def observe(self, replies: "Replies", feedback: Float[Array, " m"] | None = None) -> None:
        """Give the sampler that drew the cohort of `replies` its feedback; once for each cohort, further calls have no effect.

        Args:
            replies: Replies of a cohort of this round, or of a part of one.
            feedback: One finite number >= 0 for each of the m places. Default: what the sampler learns from, either the loss or
                the Euclidean norm of the reply (of its first part with the shape of the parameters, if there is one).
        """

    @abstractmethod
    def reject(self, rejected) -> None:
        """Count the last exchange as a rejected trial of a line search; its communication is counted all the same.

        Args:
            rejected: Whether the trial was rejected.
        """

    def connected(self) -> Bool[Array, " n"] | None:
        """Return which clients are connected; None where the engine does not know."""
        return None

    @abstractmethod
    def seconds(self) -> Float[Array, ""]:
        """Return the seconds on the clock so far: that of `turnout.devices`, or the real one; zero without a clock."""

    @abstractmethod
    def wait(self, seconds) -> None:
        """Let the clock go on without an exchange, for a number of seconds, rounded up to microseconds.

        Args:
            seconds: How long, >= 0.
        """

    @abstractmethod
    def key(self) -> Any:
        """Return the server's random key for the next exchange."""

    @abstractmethod
    def loop(self, count, body: Callable, carry: PyTree, until: Callable | None = None) -> PyTree:
        """Apply `carry = body(carry)` repeatedly; required instead of a Python or JAX loop where the body has an exchange.

        Args:
            count: Maximum number of iterations.
            body: One iteration.
            carry: Initial value.
            until: Condition on the carry that ends the loop early.
        """

    @abstractmethod
    def cond(self, predicate, then: Callable, otherwise: Callable, carry: PyTree) -> PyTree:
        """Return `then(carry)` or `otherwise(carry)`; required instead of `lax.cond` where a branch has an exchange.

        Args:
            predicate: Condition.
            then: Branch where it holds.
            otherwise: Branch where it does not.
            carry: Argument of the branch.
        """
