"""The client of a problem with groups, as a local method of an algorithm sees it: its function is of the shared leaves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.client import Client
from turnout.core.tracing import current_trace
from turnout.core.tree import add
from turnout.problems.grouped import Leaves
from turnout.problems.groups import Assignment
from turnout.problems.row_sums import Point
from turnout.problems.storage.jax_client import JaxClient, by_products

PASS = 2_000_003
"""Folded into a client's key for the random numbers of its passes in training."""


class Own:
    """What a client has beside the shared leaves, and what its gradients move of that; loops of the client carry it along.

    Args:
        groups: The group of each leaf.
        frozen: Leaves that stay as they are.
        leaves: Personal leaves, and statistics.
        factor: Minus the step size of personal leaves that are trained with each gradient; None: they are not.
        key: Random key of passes in training; None where a pass draws nothing.
        part: Returns the part of leaves that the client has, where its adapters have a rank of their own.
    """

    def __init__(
        self, groups: Assignment, frozen: Leaves, leaves: Leaves, factor: Any, key: Any, part: Callable[[Leaves], Leaves]
    ):
        self.groups, self.frozen, self.factor, self.key, self.part = groups, frozen, factor, key, part
        self.held = leaves, np.zeros((), "int32")
        self.pending, self._searching = False, False
        self._trace = current_trace()

    @property
    def moves(self) -> bool:
        """Whether gradients move anything."""
        return self.key is not None or self.factor is not None or bool(self.groups.moved)

    @property
    def live(self) -> bool:
        """Whether gradients move something now: not in a search, and in no loop of JAX's own, which would not carry it."""
        return not self._searching and current_trace() == self._trace

    @property
    def leaves(self) -> Leaves:
        """The personal leaves and the statistics."""
        return self.held[0]

    def take(self, held: tuple[Leaves, Any]) -> None:
        """Go on with what a loop carried here."""
        self.held, self._trace = held, current_trace()

    @contextmanager
    def search(self, wanted: bool) -> Iterator[None]:
        """Say whether what runs inside is a search, in which the function stays the same one."""
        before, self._searching = self._searching, wanted
        try:
            yield
        finally:
            self._searching = before

    def point(self, x: Leaves, further: tuple[str, ...] = ()) -> Point:
        """Return where the whole function is asked, along x and the `further` leaves.

        Args:
            x: The shared leaves.
            further: Names of own leaves that vary too.
        """
        leaves, passes = self.held
        varied = {**x, **{name: leaves[name] for name in further}}
        fixed = {**self.frozen, **{name: leaf for name, leaf in leaves.items() if name not in varied}}
        return self.at(varied, fixed, passes)

    def at(self, varied: Leaves, fixed: Leaves, passes: Any) -> Point:
        """Return where the whole function is asked in the pass number `passes`.

        Args:
            varied: The leaves along which it is asked.
            fixed: The others.
            passes: Number of the pass.
        """
        # Along a row of A and a column of B that are both zero gradients are zero, so that a client moves no others than its own.
        key = None if self.key is None else jax.random.fold_in(self.key, passes)
        return Point(self.part(varied), self.part(fixed), key)

    def move(self, statistics: Leaves, gradient: Leaves) -> None:
        """Take the statistics of a pass, and a step of the personal leaves along their gradient.

        Args:
            statistics: The statistics after the pass, by name.
            gradient: Gradient along the personal leaves that are trained with each gradient; empty where there are none.
        """
        leaves, passes = self.held
        stepped = add({name: leaves[name] for name in gradient}, gradient, self.factor) if gradient else {}
        self.held = {**leaves, **statistics, **stepped}, passes + 1


class GroupedClient(Client):
    """A client whose function is x -> F_i(x, h_i, z, s), with what it has itself as it is at the moment.

    Its loops, passes and branches carry what gradients move. Where a solver searches with loops of its own, its function stays
    the same one, and what gradients move does so once at the end: `settle`.

    Args:
        inner: The client of the whole function.
        own: What it has beside the shared leaves.
    """

    def __init__(self, inner: Any, own: Own):
        self.id, self.key, self.state = inner.id, inner.key, inner.state
        self._inner, self._own = inner, own

    def value(self, x):
        return self._inner.value(self._own.point(x))

    def value_and_grad(self, x):
        own = self._own
        if not own.moves:
            return self._inner.value_and_grad(own.point(x))
        if not own.live:
            own.pending = True
            return self._inner.value_and_grad(own.point(x))
        further = () if own.factor is None else own.groups.own
        point = own.point(x, further)
        if own.groups.moved:
            (value, statistics), gradient = self._inner.training(point)
        else:
            (value, gradient), statistics = self._inner.value_and_grad(point), {}
        own.move(statistics, {name: gradient[name] for name in further})
        return value, {name: gradient[name] for name in x}

    def settle(self, x):
        """Move what gradients move once, at x, if a search has put that off; return how many queries it took."""
        if not self._own.pending:
            return 0
        self._own.pending = False
        self.value_and_grad(x)
        return 1

    def personal_step(self, x: Leaves, factor: Any) -> None:
        """Take h_i <- h_i + factor grad_h F_i(x, h_i).

        Args:
            x: The shared leaves.
            factor: Minus the step size.
        """
        own = self._own
        leaves, passes = own.held
        varied = {name: leaves[name] for name in own.groups.own}
        fixed = {**own.frozen, **x, **{name: leaf for name, leaf in leaves.items() if name not in varied}}
        point = own.at(varied, fixed, passes)
        if own.groups.moved:
            (_, statistics), gradient = self._inner.training(point)
        else:
            (_, gradient), statistics = self._inner.value_and_grad(point), {}
        own.held = {**leaves, **statistics, **add(varied, gradient, factor)}, passes + 1

    def hvp(self, x, v):
        return self._inner.hvp(self._own.point(x), self._own.part(v))

    def hessian(self, x):
        return by_products(self.hvp, x) if isinstance(self._inner, JaxClient) else type(self._inner).hessian(self, x)

    def batch(self, key, size):
        return self._with(self._inner.batch(key, size))

    def passes(self, key, count, size, body, carry):
        def step(batch, carry):
            return self._carried(lambda carry: body(self._with(batch), carry), carry)

        (carry, held), steps = self._inner.passes(key, count, size, step, (carry, self._own.held))
        self._own.take(held)
        return carry, steps

    def loop(self, count, body, carry):
        carry, held = self._inner.loop(count, lambda carry: self._carried(body, carry), (carry, self._own.held))
        self._own.take(held)
        return carry

    def cond(self, predicate, then, otherwise, carry):
        branches = (lambda carry, branch=branch: self._carried(branch, carry) for branch in (then, otherwise))
        carry, held = self._inner.cond(predicate, *branches, (carry, self._own.held))
        self._own.take(held)
        return carry

    def alone(self, f):
        held = self._own.held
        result, held = self._inner.alone(lambda: self._carried(lambda _: f(), (None, held), search=True))
        self._own.take(held)
        return result

    def choose(self, number, branches):
        held = self._own.held
        inside = [lambda branch=branch: self._carried(lambda _: branch(), (None, held)) for branch in branches]
        result, held = self._inner.choose(number, inside)
        self._own.take(held)
        return result

    def _with(self, inner: Any) -> "GroupedClient":
        """Return this client with another function of the whole model, such as that of a batch."""
        client = GroupedClient(inner, self._own)
        client.state = self.state
        return client

    def _carried(self, body: Callable, carry: tuple[PyTree, tuple], search: bool = False) -> tuple[PyTree, tuple]:
        """Return what `body` makes of a carry, and what the client has after it."""
        carry, held = carry
        self._own.take(held)
        with self._own.search(search):
            return body(carry), self._own.held
