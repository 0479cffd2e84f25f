"""Cost estimate: what a run will send, how often and to how many clients, without running any client.

Start and round are traced once, as for the compiled engine. What the counts depend on (random numbers of the server, draws of
cohorts) is simulated for many rounds and seeds. What depends on the clients' data, such as a step that a line search rejects, is
bounded by what the algorithm allows.
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
from turnout.engines.cost_estimate.simulate import TracedRun, simulate, trace
from turnout.engines.cost_estimate.tracing import Event
from turnout.engines.inputs import Job
from turnout.engines.reply_usage import why_not_one_sum

LONGEST, SEEDS, PLAYED = 500, 16, 4000
"""Most rounds to simulate, fewest seeds, and fewest rounds over all seeds."""

WORK = 2 * 10**8
"""Most rounds times seeds times clients to simulate."""


class Count(NamedTuple):
    """An expected number of events.

    Args:
        least: Lower bound.
        most: Upper bound, equal to `least` where the number does not depend on data; None: unbounded.
        error: Standard error of `most`, or more.
    """

    least: float
    most: float | None
    error: float = 0.0


@dataclass(frozen=True)
class Call:
    """A call site, the expected number of each event of `tracing.COUNTED` there, and how the server uses the replies.

    Args:
        site: The call site.
        counts: Expected number of each event of `tracing.COUNTED`.
        uses: How the server uses the replies.
    """

    site: Site
    counts: dict[str, Count]
    uses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Memory:
    """What is stored between rounds: the number of vectors shaped like the parameters, and the bytes of all arrays.

    Args:
        vectors: Number of vectors shaped like the parameters.
        bytes: Bytes of all arrays.
    """

    vectors: int
    bytes: int


@dataclass(frozen=True)
class CostEstimate:
    """Estimated communication and memory of a run.

    Args:
        rounds: Number of rounds.
        clients: Number of clients.
        vector_bytes: Bytes of the parameters.
        calls: Events at each call site.
        client: Memory of a client between rounds.
        server: Memory of the server between rounds, without samplers.
    """

    rounds: int
    clients: int
    vector_bytes: int
    calls: list[Call]
    client: Memory
    server: Memory

    @property
    def sums_only(self) -> bool:
        """Whether one weighted sum of the replies suffices for each exchange."""
        return all(why_not_one_sum({*call.uses}) is None for call in self.calls)

    def totals(self) -> dict[str, Count]:
        """Return every event of `ledger.EVENTS`, summed over the calls."""
        return _counts(*(ledger.totals() for ledger in self._ledgers))

    def links(self) -> list[dict[str, Count]]:
        """Return what passes the link above each level of hubs, the lowest first, as `Ledger.links` does."""
        return [_counts(*parts) for parts in zip(*(ledger.links() for ledger in self._ledgers), strict=True)]

    @property
    def _ledgers(self) -> list[Ledger]:
        """The least counts, the largest ones and their errors."""
        sites = tuple(call.site for call in self.calls)
        return [
            Ledger(sites, tuple(tuple(_part(call.counts.get(name), part) for name in COUNTERS) for call in self.calls))
            for part in range(3)
        ]

    def cost(self, price: Price) -> Count:
        """Return the expected cost of the run under `price`."""
        totals = self.totals()
        least, error = (price.cost({name: getattr(count, part) for name, count in totals.items()}) for part in ("least", "error"))
        # An unbounded count does not matter to a price that ignores it.
        low, high = (price.cost({name: b if c.most is None else c.most for name, c in totals.items()}) for b in (0.0, 1.0))
        return Count(least, low if low == high else None, error)


def estimate(job: Job, algorithm, rounds: int) -> CostEstimate:
    """Estimate what `rounds` rounds of `algorithm`, bound to the job's problem, will send.

    Args:
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
        rounds: Number of rounds.
    """
    n, like, run = job.population.count, job.start, trace(job, algorithm)
    counts = expected_counts(run, rounds)
    server, _, clients = run.states
    one = _shaped(clients[:2], lambda shape: shape[1:])
    stacked = _shaped(like, lambda shape: (n, *shape))
    return CostEstimate(
        rounds=rounds,
        clients=n,
        vector_bytes=payload(like),
        calls=[
            Call(site, counts[path], (*sorted(run.uses.get(path, ())),))
            for path, site in run.sites.items()
            if site.method != "send"
        ],
        client=Memory(len(vectors(one, like)), payload(one)),
        server=Memory(len(vectors(server, like)) + n * len(vectors(server, stacked)), payload(server)),
    )


def expected_counts(run: TracedRun, rounds: int) -> dict[str, dict[str, Count]]:
    """Return the expected counts of `rounds` rounds by call site and counter.

    Args:
        run: The traced start and round.
        rounds: Number of rounds.
    """
    affordable = WORK // run.job.population.count
    played = min(rounds, LONGEST, max(2, affordable // SEEDS))
    seeds = max(SEEDS, min(PLAYED, affordable) // max(played, 1))
    once, each = simulate(run, played, seeds)
    totals: dict[tuple[str, str], list] = {}
    for event in run.events[0]:
        totals.setdefault((event.path, event.counter), []).append(_bounds(event, once, (seeds,)))
    for event in run.events[1]:
        bounds = _bounds(event, each, (seeds, played))
        # The first rounds may differ from later ones.
        rest = (rounds - played) * bounds[:, :, played // 2 :].mean(2) if rounds > played else 0.0
        totals.setdefault((event.path, event.counter), []).append(bounds.sum(2) + rest)
    counts: dict[str, dict[str, Count]] = {path: {} for path in run.sites}
    for (path, counter), parts in totals.items():
        counts[path][counter] = _count(*np.sum(parts, axis=0))
    return counts


def _shaped(tree: PyTree, change: Callable[[tuple], tuple]) -> PyTree:
    """Return `tree` without values, its shapes changed."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(change(leaf.shape), leaf.dtype), tree)


def _bounds(event: Event, outputs: list, shape: tuple[int, ...]) -> Float[np.ndarray, "2 ..."]:
    """Return the lower and the upper bound of an event, infinity where it is unbounded."""
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


def _counts(least: dict, most: dict, error: dict) -> dict[str, Count]:
    """Return counts of their parts, by name."""
    return {name: Count(least[name], most[name] if math.isfinite(most[name]) else None, error[name]) for name in least}


def _part(count: Count | None, part: int) -> float:
    value = 0.0 if count is None else count[part]
    return math.inf if value is None else value
