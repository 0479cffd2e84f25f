"""How long an exchange takes by the clients' devices, and whose reply is too late."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt

from turnout.accounting.counters import limbs
from turnout.accounting.ledger import Site
from turnout.core.cohort import Cohort
from turnout.devices import Fleet, Timing
from turnout.engines.groups.ranks import Parts


def timed(fleet: Fleet, cohort: Cohort, arrived: Bool[Array, " m"], queries, repeats, parts: Parts) -> Timing:
    """Return which replies are on time, and the duration of the exchange; a delegate is waited for always.

    Args:
        fleet: The devices.
        cohort: Clients that were asked.
        arrived: Places whose reply is not lost otherwise [m].
        queries: Oracle calls at each place [m].
        repeats: How often each place was asked again [m].
        parts: Call sites of the exchange.
    """
    if cohort.selection == "delegate":
        fleet = replace(fleet, first=None)
    first = parts[0][0]
    fleet.check_first(cohort.places, first.method)
    down, up = first.bytes_down, first.bytes_up
    with jax.enable_x64(True):
        for site, here in parts[1:]:
            down, up = jnp.where(here, float(site.bytes_down), down), jnp.where(here, float(site.bytes_up), up)
    return fleet.exchange(cohort.ids, cohort.active, arrived, queries, repeats, (down, up))


def microseconds(seconds: Float[Array, ""]) -> UInt[Array, " 2"]:
    """Return seconds as whole microseconds, rounded up, in two limbs.

    Args:
        seconds: The seconds.
    """
    with jax.enable_x64(True):
        return limbs(jnp.ceil(jnp.asarray(seconds, float) * 1e6).astype("int64"))


def decryption_time(
    fleet: Fleet, cohort: Cohort, answered: Bool[Array, " m"], turn: Int[Array, ""], site: Site
) -> UInt[Array, " 2"]:
    """Return how long the client whose turn it is takes to decrypt a sum; zero where nobody answered.

    Args:
        fleet: The devices.
        cohort: Clients that were asked.
        answered: Places whose reply is in the sum [m].
        turn: A number that counts exchanges.
        site: Call site of the decryption.
    """
    count = jnp.sum(answered, dtype="int32")
    place = jnp.argmax(jnp.cumsum(answered, dtype="int32") > turn % jnp.maximum(count, 1))
    one, zero, some = cohort.ids[place][None], jnp.zeros(1, "int32"), (count > 0)[None]
    whole = replace(fleet, deadline=None, first=None)
    return whole.exchange(one, some, some, zero, zero, (site.bytes_down, site.bytes_up)).microseconds
