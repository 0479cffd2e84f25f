"""The hubs of a run as arrays, and what an exchange sends over the links above them."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from turnout.accounting.ledger import Site
from turnout.core.records import record, static

Place = tuple[int, ...]
"""Where a hub is: the numbers of the hubs above it and its own, from the server down, each among those of the hub above it."""


def written(place: Place) -> str:
    """Return the place of a hub in one word: 0.3 is hub 3 of hub 0."""
    return ".".join(map(str, place))


@record
class Layout:
    """The hubs of all clients, level by level.

    Link k is the one from the hubs of level k to those of level k + 1, or from the highest ones to the server.

    Args:
        groups: The hub of each client at each level [levels, n], the lowest level first.
        rates: Microseconds of the link above each level for an exchange, a byte down and a byte up [levels, 3].
        counts: The number of hubs at each level.
        forwarded: Paths of the calls whose replies pass the links one by one, since the server reads each.
        works: Whether a hub can do the server's work for a cohort of its own clients: a round draws one cohort, and its sampler
            learns nothing from replies.
        state_bytes: Payload bytes of the server's state, which such a hub gets, and returns.
        consecutive: Whether the clients of each of the lowest hubs follow each other, in the order of the hubs.
    """

    groups: Int[Any, "levels n"]
    rates: Float[Any, "levels 3"]
    counts: tuple[int, ...] = static()
    forwarded: tuple[str, ...] = static(default=())
    works: bool = static(default=False)
    state_bytes: int = static(default=0)
    consecutive: bool = static(default=False)

    def serves(self, path: str) -> bool:
        """Return whether a hub can make the exchange at a call site by itself, for a cohort of its own clients."""
        return self.works and not path.startswith(("start.", "refresh."))

    def forwards(self, path: str) -> bool:
        """Return whether each reply to a call passes the links, and not a sum from each hub."""
        return path in self.forwarded

    def below(self, levels: int) -> "Layout":
        """Return the hubs of the lowest levels alone, as a hub above them sees them.

        Args:
            levels: Number of these levels.
        """
        return replace(self, groups=self.groups[:levels], rates=self.rates[:levels], counts=self.counts[:levels])

    def reached(self, level: int, ids: Int[Array, " m"], places: Bool[Array, " m"]) -> Int[Array, ""]:
        """Return how many hubs of a level have clients at some places of a cohort.

        Args:
            level: The level, from 0.
            ids: The clients of a cohort [m].
            places: The places [m].
        """
        return jnp.sum(self._each(level, ids, places) > 0, dtype="int32")

    def microseconds(
        self, level: int, site: Site, ids: Int[Array, " m"], asked: Bool[Array, " m"], passed: Bool[Array, " m"]
    ) -> Int[Array, ""]:
        """Return how long messages and replies take on the link above a level, all of whose hubs are at work at once.

        Args:
            level: The level, from 0.
            site: The call site on this link.
            ids: The clients of a cohort [m].
            asked: Places that hold a client [m].
            passed: Places whose reply is used [m].
        """
        most, back = (jnp.max(self._each(level, ids, places)).astype(float) for places in (asked, passed))
        replies = back if self.forwards(site.path.rpartition(".")[0]) else jnp.minimum(back, 1)
        sizes = jnp.stack([jnp.ones(()), site.bytes_down + site.bytes_each * most, site.bytes_up * replies])
        taken = jnp.sum(jnp.rint(jnp.asarray(self.rates)[level].astype(float) * sizes).astype("int64"))
        return jnp.where(most > 0, taken, 0)

    def _each(self, level: int, ids: Int[Array, " m"], places: Bool[Array, " m"]) -> Int[Array, " hubs"]:
        """Return how many of the places are of each hub of a level."""
        own = jnp.asarray(self.groups)[level][ids]
        return jnp.zeros(self.counts[level], "int32").at[own].add(places.astype("int32"))


def numbered(paths: list[tuple]) -> tuple[Int[np.ndarray, "levels n"], tuple[int, ...]]:
    """Return the number of each client's hub at each level, the lowest first, and how many hubs each level has.

    Args:
        paths: For each client the names of its hubs, the highest first.
    """
    rows, counts = [], []
    for depth in range(len(paths[0]), 0, -1):
        known: dict[tuple, int] = {}
        rows.append([known.setdefault(path[:depth], len(known)) for path in paths])
        counts.append(len(known))
    return np.array(rows, "int32"), tuple(counts)


def placed(groups: Int[np.ndarray, "levels n"]) -> list[Place]:
    """Return the place of the lowest hub of each client.

    Args:
        groups: The hub of each client at each level, the lowest level first.
    """
    places: list[Place] = [()] * groups.shape[1]
    for row in groups[::-1].tolist():
        known: dict[Place, dict[int, int]] = {}
        for client, hub in enumerate(row):
            siblings = known.setdefault(places[client], {})
            places[client] = (*places[client], siblings.setdefault(hub, len(siblings)))
    return places
