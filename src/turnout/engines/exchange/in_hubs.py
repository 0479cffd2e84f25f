"""What hubs do side by side for their own clients: who these are, and how their counts make those of a round."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int, UInt

from turnout.accounting.counters import Counts, clock
from turnout.accounting.ledger import COUNTERS
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.places import places_of
from turnout.problems.base import Population
from turnout.samplers.base import Sampler

SIDE_BY_SIDE = ("exchanges", "rejected", "cohorts", "reasks", "queries_slowest", "microseconds")
"""Counters that do not add up over hubs, which are at work at the same time."""

COLUMNS, TIME = [COUNTERS.index(name) for name in SIDE_BY_SIDE], COUNTERS.index("microseconds")


def check_sampler(sampler: Sampler) -> None:
    """Raise `UserError` where a sampler cannot draw among the clients of one hub."""
    if sampler.learns_from_feedback or sampler.consults_before_draw:
        why = "learns from all clients, and a hub sees its own"
    elif not sampler.supports_availability:
        why = "draws from all clients, and a hub has its own"
    else:
        return
    raise UserError(f"sampler {type(sampler).__name__} {why}: take one such as 'full' or 'nice'")


def clients_of(population: Population, hub: Int[ArrayLike, ""]) -> Population:
    """Return the clients of a hub as a population, whose weights sum to one.

    Args:
        population: All clients, whose strata are the hubs.
        hub: Number of the hub.
    """
    own = jnp.asarray(population.strata) == hub
    shares = jnp.where(own, population.shares, 0)
    return replace(population, available=own & population.present, weights=shares / jnp.sum(shares))


def hubs_as_clients(population: Population, count: int) -> tuple[Cohort, Int[Array, " hubs"]]:
    """Return the cohort of all hubs with an available client, and one client of each hub.

    Args:
        population: All clients, whose strata are the hubs.
        count: The number of hubs.
    """
    hub = jnp.asarray(population.strata)
    weights = jnp.zeros(count, population.shares.dtype).at[hub].add(population.shares)
    reachable = jnp.zeros(count, bool).at[hub].max(population.present)
    first = jnp.full(count, population.count, "int32").at[hub].min(jnp.arange(population.count, dtype="int32"))
    every = Population(count, weights)
    return Cohort.of(jnp.arange(count), 1.0, every, selection="arbitrary", active=reachable), first


def packed(cohort: Cohort, places: int) -> Cohort:
    """Return a cohort in the first `places` places, those of its clients; the others are empty.

    Args:
        cohort: A cohort of no more clients.
        places: Number of places.
    """
    if places >= cohort.places:
        return cohort
    at = places_of(cohort.active, jnp.arange(1, places + 1))
    here = jnp.minimum(at, cohort.places - 1)
    moved = {name: getattr(cohort, name)[here] for name in ("ids", "probability", "expansion", "share", "weight")}
    return replace(cohort, active=at < cohort.places, **moved)


def rewound(counts: Counts, before: Counts) -> Counts:
    """Return `counts` with those of `SIDE_BY_SIDE` as they were `before` hubs began.

    Args:
        counts: Counts so far.
        before: Counts before the first hub began.
    """
    return counts.at[:, COLUMNS].set(before[:, COLUMNS])


def longest(counts: Counts, most: Counts) -> Counts:
    """Return the larger count of each kind in `SIDE_BY_SIDE`, and the microseconds of the hub that took longer.

    Args:
        counts: Counts after a hub.
        most: Those of the hubs before it.
    """
    larger = jnp.where(_exceeds(counts, most)[..., None], counts, most)
    slower = jnp.where(_exceeds(clock(counts), clock(most)), counts[:, TIME], most[:, TIME])
    return larger.at[:, TIME].set(slower)


def side_by_side(tables: list[Int[np.ndarray, "sites counters"]], most: int) -> Int[np.ndarray, "sites counters"]:
    """Return the counts of a round from those of each hub; the time that the slowest hub says it took is at most `most`.

    Args:
        tables: The counts of each hub.
        most: Microseconds that passed.
    """
    stack = np.stack(tables)
    total, slowest = stack.sum(0), stack[np.argmax(stack[:, :, TIME].sum(1))][:, TIME]
    total[:, COLUMNS] = stack[:, :, COLUMNS].max(0)
    said = int(slowest.sum())
    total[:, TIME] = slowest if said <= most else [int(part) * most // said for part in slowest]
    return total


def _exceeds(a: UInt[Array, "... 2"], b: UInt[Array, "... 2"]) -> Bool[Array, "..."]:
    """Whether counts in two limbs are larger than others."""
    return (a[..., 1] > b[..., 1]) | ((a[..., 1] == b[..., 1]) & (a[..., 0] > b[..., 0]))
