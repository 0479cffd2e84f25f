"""The interface of gradient estimators: records that follow grad f(x^t) by exchanges with cohorts or with all clients."""

from dataclasses import field, replace
from typing import Any, ClassVar, NamedTuple

import jax
from jaxtyping import Array, Bool, PyTree

from turnout.core.algorithm import Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.errors import UserError
from turnout.core.records import Count, record, static
from turnout.core.tree import add
from turnout.problems.base import Problem
from turnout.samplers import Full, Sampler
from turnout.samplers.full_pass import cohort_size


class Estimate(NamedTuple):
    """The estimate g, shaped like the parameters x, and the server's memory for the next estimate.

    Args:
        gradient: g, shaped like the parameters.
        memory: What the server stores for the next estimate.
    """

    gradient: PyTree
    memory: Any = None


class ClientMemory(NamedTuple):
    """A client's private state: the memory of the estimator, and the last parameters of a fixed delegate.

    Args:
        memory: What the estimator stores at the client.
        point: The last parameters of a fixed delegate.
    """

    memory: PyTree = None
    point: PyTree = None


@record
class Estimator:
    """An estimator of the gradient of f = sum_i lambda_i f_i along the iterates x^0, x^1, ...

    A step makes g^{t+1} from x^{t+1}, x^t, g^t and a memory, by exchanges with a random cohort S or with all clients. Sums over S
    weight client i by lambda_i / p_i, p_i being its inclusion probability. They are unbiased for any lambda_i and any sampler
    that is not biased; lost replies are left out. With uniform cohorts and equal lambda_i they are means over S.

    Args:
        batch: Rows of each oracle call, drawn anew for each message and the same for all points in it; None means all rows. Set
            by the algorithm.
        everyone: Sampler of full passes. Set by the algorithm.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> algorithm = t.Icgm(t.Nice(2), t.Saga(), lam=1.0)
        >>> isinstance(algorithm.estimator, t.Estimator), t.run(algorithm, problem, rounds=2).ledger.totals()["exchanges"] > 0
        (True, True)
    """

    example = "t.Saga()"

    batch: Count | None = static(default=None, repr=False, kw_only=True)
    everyone: Full = field(default=Full(), repr=False, kw_only=True)

    cohort_defaults: ClassVar[dict[str, float]] = {}
    """Fields that default to this factor times m / n, for cohorts of m out of n clients."""

    def bind(self, sampler: Sampler, problem: Problem, batch: int | None = None) -> "Estimator":
        """Return this estimator for cohorts of `sampler`, the clients of `problem` and oracle calls on `batch` rows.

        Args:
            sampler: Draws the cohorts.
            problem: The problem.
            batch: Rows of each oracle call; None means all rows.
        """
        size = cohort_size(sampler, problem.population)
        share = size / problem.clients
        missing = {name: factor * share for name, factor in self.cohort_defaults.items() if getattr(self, name) is None}
        return replace(self, batch=batch, everyone=Full(size), **missing)

    def client_state(self, x: PyTree) -> PyTree:
        """Return a client's initial memory; None where clients keep nothing."""
        return None

    def start(self, ask: Ask, sampler: Sampler, x: PyTree) -> Estimate:
        """Return g^0, given x^0 = `x`.

        Args:
            ask: Access to the clients.
            sampler: Draws the cohorts.
            x: x^0.
        """
        raise UserError(f"{type(self).__name__} has no start(self, ask, sampler, x): write one")

    def step(self, ask: Ask, sampler: Sampler, new: PyTree, old: PyTree, estimate: Estimate) -> Estimate:
        """Return g^{t+1}, given x^{t+1} = `new`, x^t = `old` and g^t; `ask.round` is t + 1.

        Args:
            ask: Access to the clients; `ask.round` is t + 1.
            sampler: Draws the cohorts.
            new: x^{t+1}.
            old: x^t.
            estimate: g^t and the memory.
        """
        raise UserError(f"{type(self).__name__} has no step(self, ask, sampler, new, old, estimate): write one")

    def step_with_change(
        self, ask: Ask, sampler: Sampler, new: PyTree, old: PyTree, estimate: Estimate
    ) -> tuple[Estimate, PyTree]:
        """Return the result of `step` and its estimate of grad f(x^{t+1}) - grad f(x^t).

        Args:
            ask: Access to the clients; `ask.round` is t + 1.
            sampler: Draws the cohorts.
            new: x^{t+1}.
            old: x^t.
            estimate: g^t and the memory.
        """
        raise UserError(
            f"{type(self).__name__} receives no change of the gradient between two points, from which lam is estimated: give lam"
        )

    def oracle(self, client: Client) -> Client:
        """Return the client with all its rows, or with the batch of this exchange."""
        return client if self.batch is None else client.batch(client.key, self.batch)

    @on_client
    def gradient(self, client, x):
        """grad f_i(x)."""
        return Done(self.oracle(client).grad(x))

    @on_client
    def difference(self, client, message):
        """grad f_i(x) - grad f_i(y)."""
        x, y = message
        oracle = self.oracle(client)
        return Done(add(oracle.grad(x), oracle.grad(y), -1.0), queries=2)


def coin(ask: Ask, probability) -> Bool[Array, ""]:
    """Return True with `probability`; the outcome is the same until the next exchange.

    Args:
        ask: Access to the clients.
        probability: Probability of True.
    """
    return jax.random.bernoulli(ask.key(), probability)


def interpolate(g: PyTree, target: PyTree, beta) -> PyTree:
    """(1 - beta) g + beta target.

    Args:
        g: An estimate.
        target: Another one.
        beta: Weight of `target`.
    """
    return jax.tree.map(lambda g, target: (1 - beta) * g + beta * target, g, target)
