"""What travels of adapters whose ranks differ between clients: the rows of A and the columns of B that a client has."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from turnout.accounting.ledger import Site as Call
from turnout.core.cohort import Cohort
from turnout.core.messages import payload
from turnout.engines.groups.statistics import grouped_in
from turnout.privacy.mechanism import Protection
from turnout.problems.adapters.sites import Site

Sites = tuple[Site, ...]

Parts = list[tuple[Call, Bool[Array, " m"]]]
"""The call sites of one exchange, and the places of the clients that each is of."""


def cut_sites(algorithm, protection: Protection | None) -> Sites:
    """Return the matrices of whose adapters messages and replies have only what the client has.

    Args:
        algorithm: The algorithm of an engine.
        protection: Protection of replies.
    """
    grouped = grouped_in(algorithm)
    # A client's own noise is on every number of its reply.
    local = protection is not None and protection.model == "local"
    return () if grouped is None or local else grouped.cut


def cut(tree: PyTree, sites: Sites, i: int) -> PyTree:
    """Return a message or a reply with the rows and columns that client i has.

    Args:
        tree: The message or the reply.
        sites: The matrices, of `cut_sites`.
        i: The client.
    """
    return _changed(tree, sites, lambda leaf, axis, site: leaf[: site.ranks[i]] if axis == 0 else leaf[:, : site.ranks[i]])


def padded(tree: PyTree, sites: Sites) -> PyTree:
    """Return a message or a reply of whole adapters, given what `cut` left of it.

    Args:
        tree: What was sent.
        sites: The matrices, of `cut_sites`.
    """

    def grown(leaf, axis, site):
        widths = [(0, 0), (0, 0)]
        widths[axis] = (0, max(site.rank - leaf.shape[axis], 0))
        return np.pad(leaf, widths)

    return _changed(tree, sites, grown)


def by_rank(site: Call, sites: Sites, cohort: Cohort, message: PyTree, reply: PyTree) -> Parts:
    """Return a call site for each size that messages and replies of an exchange have, and the places of these clients [m].

    Args:
        site: The call site, with the size of whole adapters.
        sites: The matrices, of `cut_sites`.
        cohort: The cohort.
        message: Message to one client.
        reply: Its reply, or what of it may be cut.
    """
    if not sites:
        return [(site, cohort.active)]
    # The smallest ranks come first.
    _, clients, kind_of = np.unique([site.ranks for site in sites], axis=1, return_index=True, return_inverse=True)
    kind, parts = jnp.asarray(kind_of.reshape(-1))[cohort.ids], []
    for number, i in enumerate(clients.tolist()):
        own = {"path": f"{site.path}.ranks{number}", "method": "ranks"} if number else {}
        for way, tree in (("down", message), ("up", reply)):
            unsent = _unsent(tree, sites, i)
            own[f"bytes_{way}"] = getattr(site, f"bytes_{way}") - unsent
            # What is cut has not the shape of the parameters.
            own[f"vectors_{way}"] = 0 if unsent else getattr(site, f"vectors_{way}")
        parts.append((replace(site, **own), cohort.active & (kind == number)))
    return parts


def _unsent(tree: PyTree, sites: Sites, i: int) -> int:
    """Return how many bytes of a whole message or reply client i does not have."""
    whole = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)
    return payload(whole) - payload(jax.eval_shape(lambda tree: cut(tree, sites, i), whole))


def _changed(tree: PyTree, sites: Sites, change: Callable) -> PyTree:
    """Return a tree with change(leaf, axis of the rank, site) in the place of each A and B of the sites."""
    places = {name: (axis, site) for site in sites for axis, name in enumerate((site.a, site.b))}

    def changed(path, leaf):
        found = places.get(getattr(path[-1], "key", None)) if path else None
        return leaf if found is None or leaf.ndim != 2 else change(leaf, *found)

    return jax.tree_util.tree_map_with_path(changed, tree) if sites else tree
