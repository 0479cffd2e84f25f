"""Cohort solvers made of algorithms whose clients train locally: the cohort of the proximal problem is the whole federation."""

from collections.abc import Callable
from dataclasses import field, replace
from types import MethodType
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.records import NonNegative, Positive, record
from turnout.core.replies import Replies
from turnout.core.tree import positive, where
from turnout.samplers import Sampler
from turnout.solvers.base import CohortSolver, Proximal, StepResult
from turnout.solvers.part_of_phi import PartOfPhi


class RoundAndState(NamedTuple):
    """The `state` that a client keeps for the algorithm, and the `round` whose cohort it belongs to."""

    round: Int[Array, ""]
    state: PyTree


@record
class AsCohortSolver(CohortSolver):
    """The rounds of a federated algorithm as steps of a cohort solver.

    Clients minimise phi_i = f_i + |. - x|^2 / (2 gamma W), W = sum_{i in S} lambda_i / p_i. The mean of the phi_i, weighted by
    lambda_i / p_i, is phi / W, and means of replies are weighted alike. The states of the server and of the clients start anew
    with each cohort.

    Args:
        algorithm: The algorithm, which takes means of replies, such as `FedAvg`, `FedProx`, `FedOpt`, `Mime`, `MimeLite`,
            `FedSpeed` or `FedLamb`. Its sampler is not used: each round asks the cohort of phi.
        smoothness: L, which these algorithms do not need.
        convexity: mu, which these algorithms do not need.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> solver = t.solvers.AsCohortSolver(t.FedAvg(t.Full(), lr=0.05, steps=3))
        >>> t.run(t.Sppm(t.Nice(4), solver, gamma=0.5, inner=2), problem, rounds=5).ledger.totals()["queries_total"]
        120
    """

    smoothness: Positive | None = field(default=None, kw_only=True)
    convexity: NonNegative | None = field(default=None, kw_only=True)
    algorithm: Algorithm

    certifies = False
    needs_smoothness = False
    wraps: ClassVar[str] = "algorithm"
    """The field whose own fields configurations and sweeps name as if they were this record's."""

    def __getattr__(self, name: str) -> Callable:
        """Return the local method `name` of the algorithm, for clients that minimise phi_i."""
        method = getattr(self.__dict__.get("algorithm"), name, None)
        if method is None or not getattr(method, "on_client", False):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

        @on_client
        def on_part(self, client, message):
            message, centre, pull, round = message
            state = self.algorithm.client_state(centre)
            if state is not None:
                # A client may answer for the first time in any of the exchanges with a cohort.
                same = client.state.round == round
                state = where(same, client.state.state, state)
            done = method(PartOfPhi(client, state, centre, pull), message)
            return done if done.state is None else done._replace(state=RoundAndState(round, done.state))

        on_part.__name__ = name
        return MethodType(on_part, self)

    def bind(self, problem):
        return replace(super().bind(problem), algorithm=self.algorithm.bind(problem))

    def client_state(self, x):
        state = self.algorithm.client_state(x)
        return None if state is None else RoundAndState(jnp.zeros((), "int32"), state)

    def start(self, phi, memory):
        # No exchange precedes the first step.
        return self.algorithm.start(CohortAsk(None, self, phi), phi.unravel(phi.centre))

    def step(self, ask, phi, state):
        new, point = self.algorithm.round(CohortAsk(ask, self, phi), state), self.solution(state)
        return StepResult(new, point, jnp.full_like(point, jnp.inf))

    def solution(self, state):
        return ravel_pytree(self.algorithm.output(state))[0]


class CohortAsk(Ask):
    """The `ask` of an algorithm whose clients are the cohort of phi: drawing any cohort gives this one.

    Args:
        ask: The server's access to its clients.
        solver: The cohort solver.
        phi: The subproblem.
    """

    def __init__(self, ask: Any, solver: AsCohortSolver, phi: Proximal):
        self._ask, self._solver, self._phi = ask, solver, phi

    @property
    def round(self):
        return self._ask.round

    def draw(self, sampler, method=None, message=None):
        return self._phi.cohort

    def __call__(self, who, method, message):
        phi, method = self._phi, getattr(self._solver, method.__name__)
        cohort = phi.cohort if isinstance(who, Sampler) else who
        message = message, phi.unravel(phi.centre), phi.convexity / positive(phi.weight), self.round
        return CohortReplies(self._ask(cohort, method, message), phi.weight)

    def observe(self, replies: Any, feedback=None):
        self._ask.observe(replies.replies, feedback)

    def reject(self, rejected):
        self._ask.reject(rejected)

    def seconds(self):
        return self._ask.seconds()

    def wait(self, seconds):
        self._ask.wait(seconds)

    def key(self):
        return self._ask.key()

    def loop(self, count, body, carry, until=None):
        return self._ask.loop(count, body, carry, until)

    def cond(self, predicate, then, otherwise, carry):
        return self._ask.cond(predicate, then, otherwise, carry)


class CohortReplies(Replies):
    """Replies of clients who weigh w_i / W, w_i = lambda_i / p_i, as f_i does in f_S / W, and who are always drawn.

    Args:
        replies: Replies of the cohort.
        total_weight: W = sum_{i in S} lambda_i / p_i.
    """

    replies: Replies
    total_weight: Float[Array, ""]

    def __init__(self, replies: Replies, total_weight: Float[Array, ""]):
        object.__setattr__(self, "replies", replies)
        object.__setattr__(self, "total_weight", total_weight)

    @property
    def cohort(self):
        return self.replies.cohort

    @property
    def answered(self):
        return self.replies.answered

    @property
    def values(self):
        return self.replies.values

    def each(self, of):
        return self.replies.each(of)

    def map(self, change):
        return CohortReplies(self.replies.map(change), self.total_weight)

    def summed(self, by):
        return self._over(self.total_weight)

    def mean(self):
        return self._over(jnp.sum(jnp.where(self.answered, self.cohort.weight, 0)))

    def _over(self, weight: Float[Array, ""]) -> PyTree:
        """Return sum w_i r_i over the clients who answered, divided by `weight`."""
        return jax.tree.map(lambda sum: sum / positive(weight).astype(sum.dtype), self.replies.average())
