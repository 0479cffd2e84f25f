"""Call sites of a round, and the events that the ledger counts at each."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.accounting.ledger import Site
from turnout.core.cohort import Cohort
from turnout.core.messages import payload, vectors
from turnout.engines.encryption import encrypted_shape, numbers_in


class CallSites:
    """The call sites that a round has reached.

    The path of a call site is its place in the code: "0" for the first one of a round, "1.loop.0" for the first one inside the
    loop at place 1.
    """

    def __init__(self):
        self.reached: dict[str, Site] = {}
        self._prefix, self._next = "", 0

    @property
    def upcoming(self) -> str:
        """The path of the next call site."""
        return f"{self._prefix}{self._next}"

    def next_path(self) -> str:
        """Return the path of the next call site, and go on to the one after it."""
        path = self.upcoming
        self._next += 1
        return path

    @contextmanager
    def inside(self, path: str):
        """Number the call sites of a loop's body or a branch from zero, each time it is run or traced."""
        outer = self._prefix, self._next
        self._prefix, self._next = path + ".", 0
        try:
            yield
        finally:
            self._prefix, self._next = outer


def exchange_site(path: str, method: str, cohort: Cohort, message: PyTree, reply: PyTree, params: PyTree) -> Site:
    """Return the call site of an exchange, with the size of one client's `message` and `reply`.

    Args:
        path: Path of the call site.
        method: Address of the local method.
        cohort: The cohort.
        message: Message to one client.
        reply: Reply of one client.
        params: Parameters of the run.
    """
    return Site(
        path,
        method,
        cohort.selection,
        vectors_down=len(vectors(message, params)),
        vectors_up=len(vectors(reply, params)),
        bytes_down=payload(message),
        bytes_up=payload(reply),
    )


def encrypted_sites(site: Site, reply: PyTree) -> tuple[Site, Site]:
    """Return the call site of an exchange whose replies are encrypted, and that of the decryption of their sum by one client.

    Args:
        site: The call site without encryption.
        reply: Reply of one client.
    """
    numbers = numbers_in(reply)
    sealed = payload(encrypted_shape(numbers))
    decryption = Site(f"{site.path}.decrypted", "decrypt", site.selection, bytes_down=sealed, bytes_up=8 * numbers)
    return replace(site, bytes_up=sealed), decryption


def draw_events(cohort: Cohort, clients: int) -> dict:
    """Return the events of drawing `cohort` from a number of `clients`.

    Args:
        cohort: The cohort.
        clients: n, the number of clients.
    """
    return {
        f"draws_{cohort.selection}": cohort.selections,
        "available": cohort.available,
        "drawn": cohort.size + cohort.lost,
        "lost": cohort.lost,
        "unusable": cohort.invalid_places(clients),
    }


def decryption_events(answered, undecrypted: int) -> dict:
    """Return the events of decrypting a sum of replies, if there are any.

    Args:
        answered: Places whose reply is used, [m].
        undecrypted: Requests to decrypt it that got no reply.
    """
    once = jnp.any(answered).astype("int32")
    return {"contacts": once + undecrypted, "arrivals": once}


def part_events(here, answered, repeats) -> dict:
    """Return the messages of an exchange to some of its clients, and their replies.

    Args:
        here: Places of these clients, [m].
        answered: Places whose reply is used, [m].
        repeats: How often each place was asked again, [m].
    """
    contacts, arrivals = jnp.where(here, 1 + repeats, 0), here & answered
    return {"contacts": jnp.sum(contacts, dtype="int32"), "arrivals": jnp.sum(arrivals, dtype="int32")}


# Outside of compiled programs this is one dispatch; inside, the function is inlined.
@partial(jax.jit, inline=True)
def exchange_events(cohort: Cohort, fresh, answered, queries, missed, repeats) -> dict:
    """Return the events of one exchange.

    Args:
        cohort: Clients that were asked.
        fresh: 1 if the cohort was asked for the first time, else 0.
        answered: Places whose reply is used, [m].
        queries: Queries at each place, [m].
        missed: Problems that were not solved at each place, [m].
        repeats: How often each place was asked again, [m].
    """
    nonempty = (cohort.size > 0).astype("int32")
    queries = jnp.where(cohort.active, queries, 0)
    return {
        "exchanges": nonempty + jnp.max(repeats),
        "cohorts": nonempty * fresh,
        "reasks": nonempty * (1 - fresh) * cohort.selections + jnp.max(repeats),
        "contacts": cohort.size + jnp.sum(repeats, dtype="int32"),
        "arrivals": jnp.sum(answered, dtype="int32"),
        "missed": jnp.sum(jnp.where(cohort.active, missed, 0), dtype="int32"),
        "queries_slowest": jnp.max(queries),
        "queries_total": jnp.sum(queries, dtype="int32"),
    }
