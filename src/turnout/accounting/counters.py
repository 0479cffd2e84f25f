"""64-bit event counters inside a compiled program, each as two 32-bit limbs (low, high)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer, UInt

from turnout.accounting.ledger import COUNTERS, Ledger, Site

Counts = UInt[Array, "sites counters 2"]


def no_counts(sites: int) -> Counts:
    """Return zero counters [sites, counters, 2] for `sites` call sites."""
    return jnp.zeros((sites, len(COUNTERS), 2), "uint32")


@partial(jax.jit, static_argnames="site")
def add_events(counts: Counts, site: int, events: dict[str, Integer[Array, "..."]]) -> Counts:
    """Return `counts` with the counts of `events`, by counter name, added at the call site number `site`.

    Args:
        counts: Counts so far.
        site: Number of the call site.
        events: Count of each event, by counter name; one that may exceed 32 bits as its two limbs.
    """
    parts = {name: jnp.asarray(count).astype("uint32") for name, count in events.items()}
    more = jnp.stack([_limb(parts, name, 0) for name in COUNTERS])
    low = counts[site, :, 0] + more
    high = counts[site, :, 1] + (low < more).astype("uint32")
    if any(part.ndim for part in parts.values()):
        high = high + jnp.stack([_limb(parts, name, 1) for name in COUNTERS])
    return counts.at[site].set(jnp.stack([low, high], axis=-1))


def _limb(parts: dict[str, UInt[Array, "..."]], name: str, limb: int) -> UInt[Array, ""]:
    """Return a limb of the event `name`; zero where there is none."""
    part = parts.get(name, jnp.zeros((), "uint32"))
    return part[limb] if part.ndim else part if limb == 0 else jnp.zeros((), "uint32")


def in_limbs(count: int) -> UInt[np.ndarray, " 2"]:
    """Return a count as two limbs (low, high).

    Args:
        count: The count.
    """
    return np.array([count & 0xFFFFFFFF, count >> 32], "uint32")


def elapsed(counts: Counts) -> Float[Array, ""]:
    """Return the seconds on the clock, summed over the call sites.

    Args:
        counts: Counts so far.
    """
    kind = jnp.result_type(float)
    with jax.enable_x64(True):
        return (whole(clock(counts)).astype("float64") * 1e-6).astype(kind)


def clock(counts: Counts) -> UInt[Array, " 2"]:
    """Return the microseconds on the clock, summed over the call sites, in two limbs.

    Args:
        counts: Counts so far.
    """
    with jax.enable_x64(True):
        return limbs(jnp.sum(whole(counts[:, COUNTERS.index("microseconds")])))


def whole(count: UInt[Array, "... 2"]) -> Int[Array, "..."]:
    """Return a 64-bit count from its two limbs: to be called where 64-bit integers are enabled.

    Args:
        count: The limbs.
    """
    return count[..., 0].astype("int64") + (count[..., 1].astype("int64") << 32)


def limbs(count: Int[Array, "..."]) -> UInt[Array, "2 ..."]:
    """Return a 64-bit count as two 32-bit limbs (low, high), which programs of single precision can hold.

    Args:
        count: The count.
    """
    return jnp.stack([count & 0xFFFFFFFF, count >> 32]).astype("uint32")


def to_ledger(sites: tuple[Site, ...], counts: np.ndarray) -> Ledger:
    """Return the ledger of `counts` [..., sites, counters, 2]: Python integers, or arrays [...] of them.

    Args:
        sites: The call sites.
        counts: Their counts [..., sites, counters, 2].
    """
    sizes = [size for site in sites for size in (site.vectors_down, site.vectors_up, site.bytes_down, site.bytes_up)]
    # Sizes multiply counts of messages, and sums are over sites.
    moved, most = counts[..., [COUNTERS.index(name) for name in ("contacts", "arrivals")], 1], max(len(sites), 1)
    fits = not moved.any() and max(sizes, default=0) * most < 2**31 and counts[..., 1].max(initial=0) < 2**30 // most
    dtype = np.int64 if fits else object
    whole = counts[..., 0].astype(dtype) + (counts[..., 1].astype(dtype) << 32)
    columns = [[whole[..., s, k] for k in range(len(COUNTERS))] for s in range(len(sites))]
    return Ledger(sites, tuple(tuple(column if column.ndim else column.item() for column in row) for row in columns))
