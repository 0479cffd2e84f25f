"""What an exchange sends over the links above hubs."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from turnout.accounting.counters import limbs
from turnout.accounting.ledger import Site
from turnout.core.cohort import Cohort
from turnout.hubs import Layout


def links(
    hubs: Layout,
    site: Site,
    each: int,
    cohort: Cohort,
    whole: Cohort,
    fresh: Int[Array, ""],
    answered: Bool[Array, " m"],
    decryption: Site | None,
    clock: bool,
) -> Iterator[tuple[Site, dict]]:
    """Yield the call sites of an exchange on the link above each level of hubs, with what is counted there.

    Args:
        hubs: The hubs.
        site: Call site of the exchange with the clients.
        each: Payload bytes of what each client is sent for itself.
        cohort: Clients that are asked.
        whole: The cohort that was drawn, of which they may be a part.
        fresh: 1 if the cohort is asked for the first time since it was drawn, else 0.
        answered: Places whose reply is used [m].
        decryption: Call site of the decryption of the sum by one client, if replies are encrypted.
        clock: Whether links take time.
    """

    def timed(level: int, site: Site, passed: Bool[Array, " m"], happens) -> dict:
        if not clock:
            return {}
        with jax.enable_x64(True):
            taken = hubs.microseconds(level, site, cohort.ids, cohort.active, passed)
            return {"microseconds": limbs(jnp.where(happens == 1, taken, 0))}

    once = jnp.any(answered).astype("int32")
    for level in range(len(hubs.counts)):
        contacts, inside = hubs.reached(level, cohort.ids, cohort.active), jnp.zeros((), "int32")
        if hubs.serves(site.path):
            inside = (hubs.reached(level, whole.ids, whole.active) == 1).astype("int32")
            served = _site(f"{site.path}.served", level, site, hubs.state_bytes, hubs.state_bytes)
            first = inside * fresh
            yield served, dict.fromkeys(("exchanges", "contacts", "arrivals"), first) | timed(level, served, cohort.active, first)
        passing = _site(f"{site.path}.link", level, site, site.bytes_down - each, site.bytes_up, each)
        through = {
            "exchanges": (cohort.size > 0).astype("int32"),
            "contacts": contacts,
            "drawn": cohort.size,
            "arrivals": jnp.sum(answered, dtype="int32")
            if hubs.forwards(site.path)
            else hubs.reached(level, cohort.ids, answered),
        }
        through = {name: (1 - inside) * count for name, count in through.items()}
        yield passing, through | timed(level, passing, answered, 1 - inside)
        if decryption is not None:
            asked = _site(f"{decryption.path}.link", level, site, decryption.bytes_down, decryption.bytes_up)
            happens = (1 - inside) * once
            yield asked, dict.fromkeys(("contacts", "arrivals"), happens) | timed(level, asked, answered, happens)


def _site(path: str, level: int, site: Site, down: int, up: int, each: int = 0) -> Site:
    """Return a call site on the link above a level."""
    number = level + 1
    return Site(f"{path}{number}", "link", site.selection, bytes_down=down, bytes_up=up, level=number, bytes_each=each)
