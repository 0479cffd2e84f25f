"""Tracing a round for its events: what is counted at each call site, and the loops and branches that multiply it."""

from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer

from turnout.engines.cost_estimate.partial_eval import as_unknown
from turnout.engines.exchange.in_hubs import SIDE_BY_SIDE
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.reply_usage import RecordingAsk
from turnout.samplers import Full, Nice

FEW = 16
"""Passes of a loop that are all traced where requests are in flight."""

HUBS = 8
"""Hubs of as many clients that are all traced."""

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
    "microseconds",
)
"""Counters of the ledger that a cost estimate has."""


class Factor(NamedTuple):
    """A number that multiplies an event: the output `place` of a traced program.

    Args:
        place: Place among the outputs.
        most: Upper bound where the output depends on data; None: unbounded.
        certain: Whether the number is the output itself, and not any number from 0 to it.
    """

    place: int
    most: int | None = None
    certain: bool = True


class Event(NamedTuple):
    """Something counted at the call site `path`: the product of `factors`.

    Args:
        path: Path of the call site.
        counter: Name of the counter.
        factors: The count is their product.
    """

    path: str
    counter: str
    factors: tuple[Factor, ...]


def _whole(count):
    """Return a count as one number, a float where it has two limbs."""
    count = jnp.asarray(count)
    return count if not count.ndim else count[0].astype(float) + 2.0**32 * count[1].astype(float)


class EventAsk(RecordingAsk):
    """Answers `ask` while a round is traced, and lists the events; samplers learn nothing."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.events: list[Event] = []
        self.outputs: list[Any] = []
        self._factors: tuple[Factor, ...] = ()
        self._marks: list[tuple[Any, Any]] = []
        self._consulting = False
        self._turn: int | None = None
        self._most: dict[str, int] = {}

    def loop(self, count, body, carry, until=None):
        """Trace the first pass and a later one, which stands for all the others: its carry counts as unknown.

        Where requests are in flight, up to `FEW` passes are all traced, since each puts others there.
        """
        outside, path, carry = len(self.draws), f"{self.calls.next_path()}.loop", strongly_typed(carry)
        certain, given = until is None, not isinstance(count, Tracer)
        passes = int(count) if given and int(count) <= (2 if self.state.flight is None else FEW) else 2
        exact = certain and given and passes == int(count)
        for later in range(passes):
            if later and not exact:
                carry = self._later(carry)
            times = 1 if exact else jnp.maximum(count - 1, 0) if later else jnp.minimum(count, 1)
            with self._times(times, certain=certain), self.calls.inside(path):
                carry = strongly_typed(body(carry))
            self._resume(self._pause(outside), outside)
        return carry if exact else self._later(carry)

    def _each_hub(self, sizes, one, carry):
        """Trace one hub after the other; of more than `HUBS` hubs of as many clients the last one stands for all others."""
        outside, path, carry = len(self.draws), f"{self.calls.next_path()}.loop", strongly_typed(carry)
        count = len(sizes)
        traced = count if count <= HUBS or len({*sizes}) > 1 else HUBS
        for self._turn in range(traced):
            times = count - traced + 1 if self._turn == traced - 1 else 1
            with self._times(times), self.calls.inside(path):
                carry = strongly_typed(one(carry))
            self._resume(self._pause(outside), outside)
        self._turn = None
        if traced == count:
            return carry
        *others, answered = carry
        return *self._later(others), jnp.where(jnp.arange(count) < traced, answered, answered[traced - 1])

    def _later(self, carry):
        """Return `carry` after an unknown number of passes, which the clients' states have gone through as well."""
        self.state = self.state._replace(clients=as_unknown(self.state.clients))
        return as_unknown(carry)

    def cond(self, predicate, then, otherwise, carry):
        """Trace both branches."""
        outside, path, carry = len(self.draws), self.calls.next_path(), strongly_typed(carry)
        before, predicate = self._pause(outside), jnp.asarray(predicate)
        ends = []
        for name, branch, taken in (("then", then, predicate), ("otherwise", otherwise, ~predicate)):
            self._resume(before, outside)
            with self._times(taken, most=1), self.calls.inside(f"{path}.{name}"):
                result = strongly_typed(branch(carry))
            ends.append((self._pause(outside), result))
        # What neither branch changes does not depend on which was taken.
        state, carry = jax.tree.map(lambda yes, no: yes if yes is no else jnp.where(predicate, yes, no), *ends)
        # Numbers within the round only make keys, whose distribution does not depend on the branch.
        numbers = {name: jnp.maximum(*(getattr(end, name) for end, _ in ends)) for name in ("draws", "exchanges")}
        self._resume(state._replace(**numbers), outside)
        return carry

    def seconds(self):
        """Return the seconds on the clock, which are unknown."""
        return as_unknown(super().seconds())

    def observe(self, replies, feedback=None):
        """Record that the replies are used; what the sampler would learn from them is unknown."""
        self._observed(replies, feedback)

    def _fresh(self, cohort):
        before, place = self.state.asked, self.draws.place(cohort)
        fresh = super()._fresh(cohort)
        if place is not None and any(mark is before[place] and active is cohort.active for mark, active in self._marks):
            # The cohort was asked before, so no branch in between makes a difference.
            self.state = self.state._replace(asked=before)
        elif place is not None:
            self._marks.append((self.state.asked[place], cohort.active))
        return fresh

    def _consult(self, number, path, method, message):
        self._consulting = True
        super()._consult(number, path, method, message)
        self._consulting = False

    def _learn(self, number, learn):
        if not self._consulting:
            super()._learn(number, learn)

    def _send(self, path, cohort, *rest):
        """Also note the most that an exchange counts where replies decide who of the cohort is asked."""
        if self.job.faults is None:
            self._most = {"exchanges": 1, "cohorts": 1, **dict.fromkeys(("reasks", "contacts", "arrivals"), cohort.places)}
        sent = super()._send(path, cohort, *rest)
        self._most = {}
        return sent

    def _count(self, site, events):
        self.calls.reached[site.path] = site
        for name in COUNTED:
            if name not in events or (self._turn and name in SIDE_BY_SIDE):
                continue
            count = _whole(events[name])
            if self._turn == 0 and (name == "microseconds" or (name in SIDE_BY_SIDE and not self._alike)):
                count = as_unknown(count)
            self.events.append(Event(site.path, name, (*self._factors, self._factor(count, self._most.get(name)))))

    @property
    def _alike(self) -> bool:
        """Whether all hubs make the same exchanges, since none draws nobody."""
        return all(isinstance(sampler, Full | Nice) for sampler in self.draws.samplers)

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
