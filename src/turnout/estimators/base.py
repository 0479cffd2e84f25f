"""What every gradient estimator is: a record that makes g^{t+1} of x^{t+1}, x^t, g^t and a memory by exchanges."""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import jax
from jaxtyping import Array, Bool, PyTree

from turnout.core.algorithm import Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.errors import UserError
from turnout.core.records import Count, record, static
from turnout.core.tree import add
from turnout.samplers import Full, Sampler


class Reach(NamedTuple):
    """Whom an estimator may ask: a random cohort of m clients, or everyone, which is a full pass, m at a time."""

    random: Sampler
    everyone: Full


class Estimate(NamedTuple):
    """g, shaped like the parameters x, and what the server keeps to make the next one."""

    gradient: PyTree
    memory: Any = None


class Kept(NamedTuple):
    """A client's private state: what its estimator keeps, and the parameters where it keeps these as a fixed delegate."""

    memory: PyTree = None
    point: PyTree = None


@record
class Estimator:
    """Follows the gradient of f = sum_i lambda_i f_i by exchanges with everyone or with a random cohort S.

    Sums over S weigh client i by lambda_i / p_i, p_i being its inclusion probability, so that they are unbiased for any lambda_i
    and any sampler but a biased one; a lost reply is left out of them. With uniform cohorts and equal lambda_i they are means.
    `batch` is the number of rows of a client's oracle, drawn anew for each message but the same for all points in it; None: all.
    """

    batch: Count | None = static(default=None, repr=False, kw_only=True)

    usual: ClassVar[dict[str, float]] = {}
    """Fields that are this times m / n where they are None."""

    def bind(self, share: float, batch: int | None) -> "Estimator":
        """Return this estimator for cohorts of a share m / n of the clients, and for oracles of `batch` rows."""
        missing = {name: factor * share for name, factor in self.usual.items() if getattr(self, name) is None}
        return replace(self, batch=batch, **missing)

    def client_state(self, x: PyTree) -> PyTree:
        """Return what a client keeps at first; None where clients keep nothing."""
        return None

    def start(self, ask: Ask, reach: Reach, x: PyTree) -> Estimate:
        """Return g^0, given x^0."""
        raise UserError(f"{type(self).__name__} has no start(self, ask, reach, x): write one")

    def step(self, ask: Ask, reach: Reach, new: PyTree, old: PyTree, estimate: Estimate) -> Estimate:
        """Return g^{t+1}, given x^{t+1} = `new`, x^t = `old` and g^t; the round is t + 1."""
        raise UserError(f"{type(self).__name__} has no step(self, ask, reach, new, old, estimate): write one")

    def follow(self, ask: Ask, reach: Reach, new: PyTree, old: PyTree, estimate: Estimate) -> tuple[Estimate, PyTree]:
        """Return what `step` does, and with which estimate of grad f(x^{t+1}) - grad f(x^t)."""
        raise UserError(
            f"{type(self).__name__} is not sent how gradients move between two points, from which lam would be measured: give lam"
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
    """Return True with `probability`; it is the same coin until the next exchange."""
    return jax.random.bernoulli(ask.key(), probability)


def leant(g: PyTree, target: PyTree, beta) -> PyTree:
    """(1 - beta) g + beta target."""
    return jax.tree.map(lambda g, target: (1 - beta) * g + beta * target, g, target)
