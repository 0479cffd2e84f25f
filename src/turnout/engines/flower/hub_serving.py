"""Rounds that a hub plays in the server's place, since their cohort is of its own clients."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.accounting.ledger import OTHERS, Site
from turnout.core.cohort import Cohort
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.flower.hub_play_ask import PlayAsk

ARRAYS = ("ids", "active", "probability", "expansion", "share", "weight", "selections", "lost", "available")
"""The fields of a cohort that are arrays."""


def packed_cohort(cohort: Cohort) -> dict[str, Any]:
    """Return a cohort as JSON values.

    Args:
        cohort: The cohort.
    """
    arrays = {name: np.asarray(getattr(cohort, name)).tolist() for name in ARRAYS}
    return arrays | {"selection": cohort.selection, "biased": cohort.biased}


def read_cohort(said: Any, clients: frozenset[int]) -> Cohort:
    """Return the cohort that `packed_cohort` wrote; `ValueError` where it is none, or not of these clients.

    Args:
        said: The JSON values.
        clients: The clients of the hub.
    """
    kinds = {name: "int32" for name in ("ids", "selections", "lost", "available")} | {"active": bool}
    arrays = {name: np.asarray(said[name], kinds.get(name, float)) for name in ARRAYS}
    places = arrays["ids"].shape
    shapes = [() if name in ("selections", "lost", "available") else places for name in ARRAYS]
    if len(places) != 1 or [array.shape for array in arrays.values()] != shapes:
        raise ValueError("its cohort is not one")
    if not {*arrays["ids"][arrays["active"]].tolist()} <= clients:
        raise ValueError("its cohort has clients of another hub")
    if said["selection"] not in ("arbitrary", "random", "delegate") or type(said["biased"]) is not bool:
        raise ValueError("its cohort is not one")
    arrays = {name: jnp.asarray(array, None if name in kinds else jnp.result_type(float)) for name, array in arrays.items()}
    return Cohort(**arrays, selection=said["selection"], biased=said["biased"])


def served_sites(sites: tuple[Site, ...], levels: int) -> tuple[Site, ...]:
    """Return the call sites of what a hub counts where it plays a round: its exchanges, and the links below it.

    Args:
        sites: All call sites.
        levels: Number of levels of hubs, of which the hub is at the highest.
    """
    own = [site for site in sites if not site.path.startswith(("start.", "refresh."))]
    return tuple(site for site in own if site.method not in OTHERS or 0 < site.level < levels)


class ServingAsk(PlayAsk):
    """Answers `ask` in a hub that plays a round of the server.

    Args:
        cohort: The cohort of the round, which the server has drawn.
        *arguments: Arguments of the base class.
    """

    def __init__(self, cohort: Cohort, *arguments):
        super().__init__(*arguments)
        self.cohort = cohort

    def _draw(self, sampler, state, key, population):
        return self.cohort

    def new_leaves(self, structure: Any, leaves: list[PyTree]) -> list[np.ndarray]:
        """Return the arrays of the server's state after the round.

        Args:
            structure: Structure of the server's state.
            leaves: Its arrays before the round.
        """
        server = strongly_typed(jax.tree.unflatten(structure, leaves))
        return [np.asarray(leaf) for leaf in jax.tree.leaves(strongly_typed(self.play(server)))]
