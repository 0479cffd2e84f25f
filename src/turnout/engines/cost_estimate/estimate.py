"""The abstract engine: what a run will send, how often and to how many, without asking any client.

Start and round are traced once, as the compiled engine traces them, and nothing of them is run but what their counts depend on:
coins and numbers of the server, and draws of cohorts, are played for many rounds and seeds. What follows from the clients' data,
such as a step that a line search rejects, is bounded by what the algorithm allows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PyTree

from turnout.accounting.ledger import COUNTERS, Ledger, Site
from turnout.accounting.prices import Price
from turnout.core.messages import payload, vectors
from turnout.engines.cost_estimate.simulate import Rehearsal, play, trace
from turnout.engines.cost_estimate.tracing import Event
from turnout.engines.inputs import Job
from turnout.engines.reply_usage import obstacle

LONGEST, SEEDS, PLAYED = 500, 16, 4000
"""Rounds that are played at most, seeds that they are played with at least, and rounds played in all at least."""

WORK = 2 * 10**8
"""Rounds times seeds times clients that are played at most: with very many clients fewer rounds are."""


class Count(NamedTuple):
    """An expected number: from `least` to `most`, None where nothing bounds it; equal where data have no say.

    `error` is the standard error of `most`, or more, where chance has its part in it.
    """

    least: float
    most: float | None
    error: float = 0.0


@dataclass(frozen=True)
class Call:
    """A call site, the expected `planning.COUNTED` events there in the whole run, and the `uses` that are made of replies."""

    site: Site
    counts: dict[str, Count]
    uses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Memory:
    """What is kept between rounds: vectors shaped like the parameters, and bytes of all."""

    vectors: int
    bytes: int


@dataclass(frozen=True)
class Plan:
    """What `rounds` rounds with `clients` clients send at each call, and what a client and the server keep, samplers left out.

    A vector has `vector_bytes` bytes.
    """

    rounds: int
    clients: int
    vector_bytes: int
    calls: list[Call]
    client: Memory
    server: Memory

    @property
    def sums_only(self) -> bool:
        """Whether the server wants nothing of the replies but one weighted sum for each exchange."""
        return all(obstacle(call.uses) is None for call in self.calls)

    def totals(self) -> dict[str, Count]:
        """Return every event of `ledger.EVENTS`, summed over the calls."""
        sites = tuple(call.site for call in self.calls)
        parts = []
        for part in range(3):
            counts = tuple(tuple(_part(call.counts.get(name), part) for name in COUNTERS) for call in self.calls)
            parts.append(Ledger(sites, counts).totals())
        return {
            name: Count(least, most if math.isfinite(most) else None, parts[2][name])
            for name, least, most in ((name, parts[0][name], parts[1][name]) for name in parts[0])
        }

    def cost(self, price: Price) -> Count:
        """Return the expected cost of the run under `price`."""
        totals = self.totals()
        least, error = (price.cost({name: getattr(count, part) for name, count in totals.items()}) for part in ("least", "error"))
        # What is unbounded has no bearing on a price that does not notice it.
        few, more = (price.cost({name: b if c.most is None else c.most for name, c in totals.items()}) for b in (0.0, 1.0))
        return Count(least, few if few == more else None, error)


def plan(job: Job, algorithm, rounds: int) -> Plan:
    """Foretell what `rounds` rounds of `algorithm`, bound to the job's problem, will send."""
    n, like, rehearsal = job.population.count, job.start, trace(job, algorithm)
    counts = foretell(rehearsal, rounds)
    server, _, clients = rehearsal.states
    each = _shaped(clients, lambda shape: shape[1:])
    stacked = _shaped(like, lambda shape: (n, *shape))
    return Plan(
        rounds=rounds,
        clients=n,
        vector_bytes=payload(like),
        calls=[Call(site, counts[path], (*sorted(rehearsal.uses.get(path, ())),)) for path, site in rehearsal.sites.items()],
        client=Memory(len(vectors(each, like)), payload(each)),
        server=Memory(len(vectors(server, like)) + n * len(vectors(server, stacked)), payload(server)),
    )


def foretell(rehearsal: Rehearsal, rounds: int) -> dict[str, dict[str, Count]]:
    """Return the expected counts of `rounds` rounds by call site and counter."""
    affordable = WORK // rehearsal.job.population.count
    played = min(rounds, LONGEST, max(2, affordable // SEEDS))
    seeds = max(SEEDS, min(PLAYED, affordable) // max(played, 1))
    once, each = play(rehearsal, played, seeds)
    totals: dict[tuple[str, str], list] = {}
    for event in rehearsal.events[0]:
        totals.setdefault((event.path, event.counter), []).append(_bounds(event, once, (seeds,)))
    for event in rehearsal.events[1]:
        bounds = _bounds(event, each, (seeds, played))
        # The first rounds may do what later ones do not.
        rest = (rounds - played) * bounds[:, :, played // 2 :].mean(2) if rounds > played else 0.0
        totals.setdefault((event.path, event.counter), []).append(bounds.sum(2) + rest)
    counts: dict[str, dict[str, Count]] = {path: {} for path in rehearsal.sites}
    for (path, counter), parts in totals.items():
        counts[path][counter] = _count(*np.sum(parts, axis=0))
    return counts


def _shaped(tree: PyTree, change: Callable[[tuple], tuple]) -> PyTree:
    """Return arrays without values, of shapes changed from those of `tree`."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(change(leaf.shape), leaf.dtype), tree)


def _bounds(event: Event, outputs: list, shape: tuple[int, ...]) -> Float[np.ndarray, "2 ..."]:
    """Return the least and the most of an event, infinity where nothing bounds it."""
    least, most = np.ones(shape), np.ones(shape)
    for place, limit, certain in event.factors:
        value = outputs[place]
        least = _times(least, 0.0 if value is None or not certain else np.asarray(value, float))
        most = _times(most, (np.inf if limit is None else limit) if value is None else np.asarray(value, float))
    return np.stack([least, most])


def _times(a: np.ndarray, b: Any) -> np.ndarray:
    """a b, where 0 times infinity is 0."""
    return np.multiply(a, b, out=np.zeros(a.shape), where=(a != 0) & (np.asarray(b) != 0))


def _count(least: Float[np.ndarray, " seeds"], most: Float[np.ndarray, " seeds"]) -> Count:
    if not np.isfinite(most).all():
        return Count(float(least.mean()), None)
    return Count(float(least.mean()), float(most.mean()), float(most.std(ddof=1) / np.sqrt(most.size)))


def _part(count: Count | None, part: int) -> float:
    value = 0.0 if count is None else count[part]
    return math.inf if value is None else value
