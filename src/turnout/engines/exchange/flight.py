"""Requests in flight: those that were sent and whose replies have not been taken, in a fixed number of places."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree, UInt

from turnout.core.client import Done
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.places import places_of
from turnout.core.records import record, static
from turnout.problems.base import Population
from turnout.samplers.available import Available
from turnout.samplers.base import Sampler


@record
class Flight:
    """Requests in flight, in f places.

    Args:
        method: Address of the local method that they ask for.
        cohort: Their clients, `active` where a place has a request; of the whole draw only the selection is kept.
        done: What the local method returned [f, ...].
        answered: Whether the reply will come [f].
        sent: Round in which each was sent [f].
        exchange: Number of the exchange in that round [f].
        ends: When each reply comes, in two limbs [f, 2]: microseconds on the clock, or without one the request's number.
        count: How many requests were sent so far.
        number: Number of each request among all [f].
        message: Their messages [f, ...], where they may have to be sent again after a restart; else None.
        heard: What a codec's memory of the messages to their clients becomes when the replies are used [f, ...]; else None.
    """

    method: str = static()
    cohort: Cohort
    done: Done
    answered: Bool[Array, " f"]
    sent: Int[Array, " f"]
    exchange: Int[Array, " f"]
    ends: UInt[Array, "f 2"]
    count: Int[Array, ""]
    number: Int[Array, " f"]
    message: PyTree = None
    heard: PyTree = None


def empty(places: int, first: Flight) -> Flight:
    """Return no requests, of the shapes of the first ones.

    Args:
        places: f, the number of places.
        first: The first requests [m, ...].
    """
    zero = jnp.zeros((), "int32")
    nobody = replace(first.cohort, selections=zero, lost=zero, available=zero)
    nothing = replace(first, cohort=nobody, count=zero)
    return _at_each_place(lambda leaf: jnp.zeros((places, *leaf.shape[1:]), leaf.dtype), nothing)


LAST = np.uint32(2**32 - 1)
"""A time after all others."""

PER_PLACE = ("ids", "active", "probability", "expansion", "share", "weight")
"""The fields of a cohort that have a number for each place."""

STACKED = ("done", "answered", "sent", "exchange", "ends", "number", "message", "heard")
"""The other parts of requests that are stacked over the places."""


def _at_each_place(change: Callable, flight: Flight, *others: Flight) -> Flight:
    """Return requests with each array that is stacked over the places replaced by `change(array, *those of the others)`."""
    every = (flight, *others)
    cohort = {name: change(*(getattr(each.cohort, name) for each in every)) for name in PER_PLACE}
    stacked = {name: jax.tree.map(change, *(getattr(each, name) for each in every)) for name in STACKED}
    return replace(flight, cohort=replace(flight.cohort, **cohort), **stacked)


def taken_off(flight: Flight, cohort: Cohort) -> tuple[Int[Array, " m"], Cohort]:
    """Return the free places that the clients of a cohort get, and the cohort without those for which there is none.

    Args:
        flight: The requests in flight.
        cohort: The cohort.
    """
    places = flight.answered.size
    if cohort.places > places:
        raise UserError(f"{cohort.places} requests are sent at once, but in_flight is {places}: raise it, or draw fewer clients")
    # The k-th client that is drawn gets the k-th free place.
    slots = places_of(~flight.cohort.active, jnp.cumsum(cohort.active, dtype="int32"))
    fits = cohort.active & (slots < places)
    lost = cohort.lost + jnp.sum(cohort.active & ~fits, dtype="int32")
    return jnp.where(fits, slots, places), replace(cohort, active=fits, lost=lost)


def numbers(flight: Flight, cohort: Cohort) -> Int[Array, " m"]:
    """Return the numbers that requests to a cohort get among all.

    Args:
        flight: The requests in flight.
        cohort: The cohort.
    """
    return flight.count + jnp.cumsum(cohort.active, dtype="int32") - 1


def put(flight: Flight, slots: Int[Array, " m"], new: Flight) -> Flight:
    """Return the requests in flight with new ones.

    Args:
        flight: The requests in flight before.
        slots: Places of the new ones; f for none.
        new: The new ones [m, ...].
    """

    def write(old, new):
        return old.at[slots].set(jnp.asarray(new).astype(old.dtype), mode="drop")

    return replace(_at_each_place(write, flight, new), count=flight.count + new.cohort.size)


def first_to_come(flight: Flight, count: int) -> Int[Array, " count"]:
    """Return the places of the next replies to come, of several at once those at the first places; empty places are last.

    Args:
        flight: The requests in flight.
        count: How many.
    """
    low, high = (jnp.where(flight.cohort.active, flight.ends[:, k], LAST) for k in (0, 1))
    if count == 1:
        return jnp.argmin(jnp.where(high == jnp.min(high), low, LAST), keepdims=True).astype("int32")
    with jax.enable_x64(True):
        ends = low.astype("int64") + (high.astype("int64") << 32)
        return jnp.argsort(ends, stable=True)[:count].astype("int32")


def landed(flight: Flight, places: Int[Array, " m"]) -> tuple[Flight, Flight]:
    """Return the requests at some places, and those left in flight.

    Args:
        flight: The requests in flight.
        places: The places.
    """
    taken = _at_each_place(lambda leaf: leaf[places], flight)
    active = flight.cohort.active.at[places].set(False)
    return taken, replace(flight, cohort=replace(flight.cohort, active=active))


def busy(flight: Flight, cohort: Cohort) -> Int[Array, ""]:
    """Return how many clients of a cohort have a request in flight.

    Args:
        flight: The requests in flight.
        cohort: The cohort.
    """
    same = (cohort.ids[:, None] == flight.cohort.ids[None]) & cohort.active[:, None] & flight.cohort.active[None]
    return jnp.sum(same, dtype="int32")


def without(population: Population, flight: Flight, sampler: Sampler) -> Population:
    """Return the clients that a sampler may draw: those without a request in flight.

    Args:
        population: All clients.
        flight: The requests in flight.
        sampler: The sampler.
    """
    ids = jnp.where(flight.cohort.active, flight.cohort.ids, population.count)
    if sampler.supports_in_flight:
        return replace(population, in_flight=ids)
    if not (sampler.supports_availability or isinstance(sampler, Available)):
        name = type(sampler).__name__
        raise UserError(f"sampler {name} draws from all clients, also those with a request in flight: take one such as 'nice'")
    free = jnp.ones(population.count, bool).at[ids].set(False, mode="drop")
    return replace(population, available=free & population.present)
