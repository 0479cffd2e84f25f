"""Tracing a round for its counts: what happens at each call site, and what multiplies it."""

from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer

from turnout.engines.ask import strongly_typed
from turnout.engines.compiled import CompiledAsk
from turnout.engines.cost_estimate.partial_eval import veiled

COUNTED = (
    "draws_arbitrary",
    "draws_random",
    "draws_delegate",
    "drawn",
    "exchanges",
    "cohorts",
    "reasks",
    "contacts",
    "arrivals",
    "queries_slowest",
    "queries_total",
)
"""The counters of the ledger that a plan foretells."""


class Factor(NamedTuple):
    """Output `place` of a traced program: a number from 0 to `most` (None: of any size) where it depends on data.

    One that is not `certain` may be less than that in any case.
    """

    place: int
    most: int | None = None
    certain: bool = True


class Event(NamedTuple):
    """Something counted at the call site `path`: the product of `factors`."""

    path: str
    counter: str
    factors: tuple[Factor, ...]


class PlanAsk(CompiledAsk):
    """Answers `ask` while a round is traced for its counts: each body of a loop or a branch is traced with what multiplies it."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.events: list[Event] = []
        self.outputs: list[Any] = []
        self._factors: tuple[Factor, ...] = ()
        self._marks: list[tuple[Any, Any]] = []
        self._deaf = False

    def loop(self, count, body, carry, until=None):
        """Trace the first pass and a later one, which stands for all the others: its carry counts as not known."""
        outside, path, carry = len(self._drawn), f"{self._path()}.loop", strongly_typed(carry)
        certain, given = until is None, not isinstance(count, Tracer)
        exact = certain and given and int(count) <= 2
        for later in range(min(int(count), 2) if given else 2):
            if later and not exact:
                carry = self._later(carry)
            times = jnp.maximum(count - 1, 0) if later else jnp.minimum(count, 1)
            with self._times(times, certain=certain), self._inside(path):
                carry = strongly_typed(body(carry))
            self._resume(self._pause(outside), outside)
        return carry if exact else self._later(carry)

    def _later(self, carry):
        """Return `carry` as it may be after any number of passes, and take the clients' states likewise."""
        self.state = self.state._replace(clients=veiled(self.state.clients))
        return veiled(carry)

    def cond(self, predicate, then, otherwise, carry):
        """Trace both branches."""
        outside, path, carry = len(self._drawn), self._path(), strongly_typed(carry)
        before, predicate = self._pause(outside), jnp.asarray(predicate)
        ends = []
        for name, branch, taken in (("then", then, predicate), ("otherwise", otherwise, ~predicate)):
            self._resume(before, outside)
            with self._times(taken, most=1), self._inside(f"{path}.{name}"):
                result = strongly_typed(branch(carry))
            ends.append((self._pause(outside), result))
        # What neither branch changes does not depend on which was taken.
        state, carry = jax.tree.map(lambda yes, no: yes if yes is no else jnp.where(predicate, yes, no), *ends)
        # Numbers within the round only make keys, whose law does not depend on the branch.
        numbers = {name: jnp.maximum(*(getattr(end, name) for end, _ in ends)) for name in ("draws", "exchanges")}
        self._resume(state._replace(**numbers), outside)
        return carry

    def observe(self, replies, feedback=None):
        """Samplers learn nothing, and go on as they started: what they would learn is not known."""
        self._heard(replies, feedback)

    def _fresh(self, cohort):
        before, place = self.state.asked, self._place(cohort)
        fresh = super()._fresh(cohort)
        if place is not None and any(mark is before[place] and who is cohort.active for mark, who in self._marks):
            # It was asked before, so that no branch in between makes a difference.
            self.state = self.state._replace(asked=before)
        elif place is not None:
            self._marks.append((self.state.asked[place], cohort.active))
        return fresh

    def _preview(self, number, path, method, message):
        self._deaf = True
        super()._preview(number, path, method, message)
        self._deaf = False

    def _learn(self, number, learn):
        if not self._deaf:
            super()._learn(number, learn)

    def _count(self, site, events):
        self.found[site.path] = site
        for name in COUNTED:
            if name in events:
                self.events.append(Event(site.path, name, (*self._factors, self._factor(events[name]))))

    def _factor(self, value, most: int | None = None, certain: bool = True) -> Factor:
        self.outputs.append(jnp.asarray(value))
        return Factor(len(self.outputs) - 1, most, certain)

    @contextmanager
    def _times(self, value, most: int | None = None, certain: bool = True):
        """Multiply all that is counted inside by `value`."""
        outer = self._factors
        self._factors = (*outer, self._factor(value, most, certain))
        try:
            yield
        finally:
            self._factors = outer
