"""64-bit event counters inside a compiled program, each as two 32-bit limbs (low, high)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Integer, UInt

from turnout.accounting.ledger import COUNTERS, Ledger, Site

Counts = UInt[Array, "sites counters 2"]


def no_counts(sites: int) -> Counts:
    """Return zero counters [sites, counters, 2] for `sites` call sites."""
    return jnp.zeros((sites, len(COUNTERS), 2), "uint32")


@partial(jax.jit, static_argnames="site")
def add_events(counts: Counts, site: int, events: dict[str, Integer[Array, ""]]) -> Counts:
    """Return `counts` with the counts of `events`, by counter name, added at the call site number `site`.

    Args:
        counts: Counts so far.
        site: Number of the call site.
        events: Count of each event, by counter name.
    """
    more = jnp.stack([jnp.asarray(events.get(name, 0)).astype("uint32") for name in COUNTERS])
    low = counts[site, :, 0] + more
    high = counts[site, :, 1] + (low < more).astype("uint32")
    return counts.at[site].set(jnp.stack([low, high], axis=-1))


def to_ledger(sites: tuple[Site, ...], counts: np.ndarray) -> Ledger:
    """Return the ledger of `counts` [..., sites, counters, 2]: Python integers, or arrays [...] of them.

    Args:
        sites: The call sites.
        counts: Their counts [..., sites, counters, 2].
    """
    sizes = [size for site in sites for size in (site.vectors_down, site.vectors_up, site.bytes_down, site.bytes_up)]
    fits = not counts[..., 1].any() and max(sizes, default=0) * len(sites) < 2**31
    dtype = np.int64 if fits else object
    whole = counts[..., 0].astype(dtype) + (counts[..., 1].astype(dtype) << 32)
    columns = [[whole[..., s, k] for k in range(len(COUNTERS))] for s in range(len(sites))]
    return Ledger(sites, tuple(tuple(column if column.ndim else column.item() for column in row) for row in columns))
